package input_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/mcp/input"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

func raw(text string) json.RawMessage { return json.RawMessage(text) }

func TestRead(t *testing.T) {
	text := `{"a":{"method":"elicitation/create","params":{"message":"m"},"x":1},"b":{"method":"roots/list"},"c":{"params":{},"method":"sampling/createMessage"}}`
	got, err := input.Read(raw(text))
	want := []input.Request{
		{Key: "a", Method: wire.MethodElicit, Params: raw(`{"message":"m"}`)},
		{Key: "b", Method: wire.MethodRoots},
		{Key: "c", Method: wire.MethodSample, Params: raw(`{}`)},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	want[1].Params = raw("{}")
	again, err := input.Read(input.Encode(got))
	if diff := cmp.Diff(want, again); err != nil || diff != "" {
		t.Errorf("written and read again: %v\n%s", err, diff)
	}
	if none, err := input.Read(raw(" {} ")); err != nil || len(none) != 0 || string(input.Encode(nil)) != "{}" {
		t.Errorf("none: %v %v", none, err)
	}
}

// many returns n requests.
func many(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`"k%d":{"method":"roots/list"}`, i))
	}
	return "{" + strings.Join(out, ",") + "}"
}

func TestReadRefuses(t *testing.T) {
	if _, err := input.Read(raw(many(input.MaxRequests))); err != nil {
		t.Errorf("as many as there may be: %v", err)
	}
	for _, text := range []string{
		"", "null", "[]", `"x"`, "{", `{"a":1}`, `{"a":[]}`, `{"a":{}}`, `{"a":{"method":"tools/call"}}`, `{"a":{"method":1}}`,
		`{"a":{"Method":"roots/list"}}`, `{"a":{"method":"roots/list","params":[]}}`, `{"a":{"method":"roots/list","params":null}}`,
		`{"":{"method":"roots/list"}}`, `{"` + strings.Repeat("k", 129) + `":{"method":"roots/list"}}`,
		`{"a":{"method":"roots/list"},"a":{"method":"roots/list"}}`, many(input.MaxRequests + 1), many(10_000),
		`{"a":{"method":"roots/list","params":{"x":"` + strings.Repeat("y", 64<<10) + `"}}}`,
		`{"a":{"method":"roots/list","params":` + strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70) + `}}`,
	} {
		if got, err := input.Read(raw(text)); err == nil {
			t.Errorf("%.60s: %v", text, got)
		} else if _, ok := errors.AsType[*input.Error](err); !ok {
			t.Errorf("%.60s: %T %v", text, err, err)
		}
	}
}

func TestAble(t *testing.T) {
	form := input.Request{Method: wire.MethodElicit, Params: raw(`{"message":"m"}`)}
	page := input.Request{Method: wire.MethodElicit, Params: raw(`{"mode":"url"}`)}
	sample := input.Request{Method: wire.MethodSample, Params: raw(`{"messages":[]}`)}
	tools := input.Request{Method: wire.MethodSample, Params: raw(`{"tools":[]}`)}
	roots := input.Request{Method: wire.MethodRoots}
	for _, c := range []struct {
		capabilities string
		able         []*input.Request
	}{
		{"", nil},
		{"{}", nil},
		{"[]", nil},
		{`{"elicitation":null,"sampling":null,"roots":null}`, nil},
		{`{"elicitation":{}}`, []*input.Request{&form}},
		{`{"elicitation":{"form":{}}}`, []*input.Request{&form}},
		{`{"elicitation":{"url":{}}}`, []*input.Request{&page}},
		{`{"elicitation":{"url":null}}`, []*input.Request{&form}},
		{`{"elicitation":{"form":{},"url":{}}}`, []*input.Request{&form, &page}},
		{`{"sampling":{}}`, []*input.Request{&sample}},
		{`{"sampling":{"tools":{}}}`, []*input.Request{&sample, &tools}},
		{`{"roots":{"listChanged":true}}`, []*input.Request{&roots}},
		{`{"Roots":{}}`, nil},
	} {
		capabilities := raw(c.capabilities)
		if c.capabilities == "" {
			capabilities = nil
		}
		for _, r := range []*input.Request{&form, &page, &sample, &tools, &roots} {
			want := false
			for _, able := range c.able {
				want = want || able == r
			}
			if got := r.Able(capabilities); got != want {
				t.Errorf("%s: %s %s: %t", c.capabilities, r.Method, r.Params, got)
			}
		}
	}
	if unknown := (input.Request{Method: "tools/call"}); unknown.Able(raw(`{"roots":{}}`)) {
		t.Error("a method that no server may ask")
	}
}

func TestOffered(t *testing.T) {
	all := `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{"listChanged":true},"extensions":{"io.modelcontextprotocol/tasks":{},"x/y":{}},"experimental":{"z":{}}}`
	for _, c := range []struct {
		capabilities string
		offer        input.Offer
		want         string
	}{
		{all, input.Offer{}, ""},
		{"{}", input.Offer{Elicitation: true, Sampling: true, Roots: true, Tasks: true}, ""},
		{all, input.Offer{Elicitation: true}, `{"elicitation":{"form":{},"url":{}}}`},
		{`{"elicitation":{}}`, input.Offer{Elicitation: true}, `{"elicitation":{"form":{}}}`},
		{all, input.Offer{Sampling: true}, `{"sampling":{}}`},
		{all, input.Offer{Sampling: true, SamplingTools: true}, `{"sampling":{"tools":{}}}`},
		{`{"sampling":{}}`, input.Offer{Sampling: true, SamplingTools: true}, `{"sampling":{}}`},
		{"{}", input.Offer{Answered: true}, `{"sampling":{}}`},
		{"{}", input.Offer{Answered: true, SamplingTools: true}, `{"sampling":{"tools":{}}}`},
		{all, input.Offer{Roots: true, Tasks: true}, `{"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
	} {
		if got := input.Offered(raw(c.capabilities), c.offer); string(got) != c.want {
			t.Errorf("%s %+v: %s, want %s", c.capabilities, c.offer, got, c.want)
		}
	}
	if input.CanOpen(nil) || input.CanOpen(raw(`{"elicitation":{}}`)) || !input.CanOpen(raw(all)) {
		t.Error("pages are opened by those that declare it")
	}
}
