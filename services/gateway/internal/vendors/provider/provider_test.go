package provider_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// A request that is at fault fails everywhere; all other failures may succeed elsewhere.
func TestFailover(t *testing.T) {
	for class, want := range map[apierr.Class]bool{
		apierr.ClassTransient: true, apierr.ClassRateLimit: true, apierr.ClassServerError: true, apierr.ClassAuth: true,
		apierr.ClassPolicy: false, apierr.ClassContextOverflow: false, apierr.ClassContentPolicy: false,
	} {
		if got := (&provider.Error{Class: class}).Failover(); got != want {
			t.Errorf("%s: Failover = %v, want %v", class, got, want)
		}
	}
}

// Fields that have other names in some faces are in the text only, which says the contract's.
func TestUnsupportedNamesItsField(t *testing.T) {
	for field, want := range map[string]string{
		"temperature": "temperature", "size": "size", "tools[].type": "", "messages[0].role": "", "reasoning": "",
		"response_format.json_schema.strict": "",
	} {
		if got := provider.Unsupported(field, "must be less"); got.Field != want || got.Text != field+": must be less" {
			t.Errorf("%s: field %q, text %q", field, got.Field, got.Text)
		}
	}
}

func TestErrorNamesItsCause(t *testing.T) {
	cause := errors.New("connection reset")
	err := &provider.Error{Class: apierr.ClassTransient, Status: 504, Code: "slow", Text: "late", Cause: cause}
	for _, part := range []string{"transient", "504", "slow", "late", "connection reset"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err.Error(), part)
		}
	}
	if !errors.Is(err, cause) {
		t.Error("the cause is lost")
	}
}

func TestUsageTotals(t *testing.T) {
	u := provider.Usage{Input: 1, CacheRead: 2, CacheWrite: 4, Output: 8, Reasoning: 16, Images: 32}
	if u.Prompt() != 7 || u.Completion() != 24 {
		t.Errorf("Prompt = %d, Completion = %d", u.Prompt(), u.Completion())
	}
}

func TestEstimate(t *testing.T) {
	for bytes, tokens := range map[int]int64{0: 0, 1: 1, 4: 1, 5: 2} {
		want := provider.Usage{Input: tokens, Output: tokens}
		if diff := cmp.Diff(want, provider.Estimate(bytes, bytes)); diff != "" {
			t.Errorf("%d bytes (-want +got):\n%s", bytes, diff)
		}
	}
}

func TestFinishReasonWithCalls(t *testing.T) {
	for finish, want := range map[provider.FinishReason]struct{ with, without provider.FinishReason }{
		"":                           {"", ""},
		provider.FinishStop:          {provider.FinishToolCalls, provider.FinishStop},
		provider.FinishToolCalls:     {provider.FinishToolCalls, provider.FinishStop},
		provider.FinishLength:        {provider.FinishLength, provider.FinishLength},
		provider.FinishContentFilter: {provider.FinishContentFilter, provider.FinishContentFilter},
	} {
		if with, without := finish.WithCalls(true), finish.WithCalls(false); with != want.with || without != want.without {
			t.Errorf("%q is %q with calls and %q without, want %q and %q", finish, with, without, want.with, want.without)
		}
	}
}

func TestMessageText(t *testing.T) {
	for want, m := range map[string]provider.Message{
		"":     {},
		"a":    {Content: []provider.Part{{Text: "a"}}},
		"b\nc": {Content: []provider.Part{{Text: "b"}, {ImageURL: "https://images.example/a.png"}, {Text: "c"}}},
		"d\ne": {Role: provider.RoleTool, Content: []provider.Part{{}, {Text: "d"}, {}, {Text: "e"}}},
		"fg":   {Role: provider.RoleAssistant, Content: []provider.Part{{Text: "f"}, {Text: "g"}}},
	} {
		if got := m.Text(); got != want {
			t.Errorf("Text = %q, want %q", got, want)
		}
	}
}
