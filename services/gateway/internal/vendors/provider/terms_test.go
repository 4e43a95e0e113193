package provider_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestSamplingIsFitted(t *testing.T) {
	for _, c := range []struct {
		terms             provider.Terms
		temperature, topP *float64
		effort            provider.Effort
		sent              string
		left              provider.Hint
	}{
		{provider.Terms{}, new(0.3), new(0.5), "", "0.3 0.5", 0},
		{provider.Terms{Sampling: provider.SamplingOne}, new(0.3), new(0.5), "", "0.3 -", provider.HintTopP},
		{provider.Terms{Sampling: provider.SamplingOne}, new(1.0), new(0.5), "", "- 0.5", 0},
		{provider.Terms{Sampling: provider.SamplingOne}, new(0.3), new(1.0), "", "0.3 -", 0},
		{provider.Terms{Sampling: provider.SamplingOne}, nil, new(0.5), "", "- 0.5", 0},
		{provider.Terms{Sampling: provider.SamplingDefault}, new(0.3), new(0.5), "", "- -", provider.HintTemperature | provider.HintTopP},
		{provider.Terms{Sampling: provider.SamplingDefault}, new(1.0), new(1.0), "", "- -", 0},
		{provider.Terms{Sampling: provider.SamplingDefault, SamplesWithoutReasoning: true}, new(0.3), nil, "none", "0.3 -", 0},
		{provider.Terms{Sampling: provider.SamplingDefault, SamplesWithoutReasoning: true}, new(0.3), nil, "low", "- -", provider.HintTemperature},
	} {
		chat := &provider.Chat{Temperature: c.temperature, TopP: c.topP}
		if c.effort != "" {
			chat.Reasoning = &provider.Reasoning{Effort: c.effort}
		}
		got, err := c.terms.Fit(chat)
		if err != nil {
			t.Fatal(err)
		}
		text := func(setting *float64) string {
			if setting == nil {
				return "-"
			}
			return fmt.Sprint(*setting)
		}
		if sent := text(got.Temperature) + " " + text(got.TopP); sent != c.sent || got.Left != c.left {
			t.Errorf("%+v of %s and %s: %s, left %b, want %s, left %b", c.terms.Sampling, text(c.temperature), text(c.topP), sent, got.Left, c.sent, c.left)
		}
		if chat.Temperature != c.temperature || chat.TopP != c.topP {
			t.Error("the chat itself changed")
		}
	}
}

func TestStopsAreFitted(t *testing.T) {
	for _, c := range []struct {
		terms      provider.Terms
		stop, want []string
		left       provider.Hint
		refused    bool
	}{
		{provider.Terms{}, []string{"\n", "a"}, []string{"\n", "a"}, 0, false},
		{provider.Terms{}, []string{"", "a"}, []string{"a"}, provider.HintStop, false},
		{provider.Terms{NoBlanks: true}, []string{"\n", "a", " "}, []string{"a"}, provider.HintStop, false},
		{provider.Terms{Stops: provider.NoStops}, []string{"a"}, nil, provider.HintStop, false},
		{provider.Terms{Stops: 2}, []string{"a", "b"}, []string{"a", "b"}, 0, false},
		{provider.Terms{Stops: 2}, []string{"a", "b", "c"}, nil, 0, true},
	} {
		got, err := c.terms.Fit(&provider.Chat{Stop: c.stop})
		if e, ok := errors.AsType[*provider.Error](err); ok != c.refused || ok && !e.Unsupported {
			t.Errorf("%q: %v", c.stop, err)
		}
		if err == nil && (!cmp.Equal(got.Stop, c.want) || got.Left != c.left) {
			t.Errorf("%q: %q, left %b, want %q, left %b", c.stop, got.Stop, got.Left, c.want, c.left)
		}
	}
}

// Functions whose schemas the vendor can't enforce are not strict, and the chat itself stays unchanged.
func TestStrictnessIsFitted(t *testing.T) {
	terms := provider.Terms{Loosen: func(*provider.Chat) ([]int, error) { return []int{1}, nil }}
	chat := &provider.Chat{Tools: []provider.Tool{{Name: "a", Strict: true}, {Name: "b", Strict: true}}}
	got, err := terms.Fit(chat)
	if err != nil || got.Left != provider.HintStrict || !got.Tools[0].Strict || got.Tools[1].Strict || !chat.Tools[1].Strict {
		t.Errorf("%+v, %v", got, err)
	}
	terms.Loosen = func(*provider.Chat) ([]int, error) {
		return nil, provider.Unsupported("response_format", "must be less")
	}
	if _, err := terms.Fit(chat); err == nil {
		t.Error("a schema that the vendor can't enforce was not refused")
	}
}

// Functions get names that the vendor accepts, the same everywhere in the request, and the answer's calls get the
// caller's names back.
func TestNamesAreFitted(t *testing.T) {
	terms := provider.Terms{Functions: provider.NameRule{Longest: 64, LetterFirst: true}}
	taken := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`)
	for _, name := range []string{
		"f", strings.Repeat("n", 64), strings.Repeat("n", 65), "mcp__io-github-example-google-workspace-mcp__batch_modify_gmail_message_labels",
		"devserver.stop", "größe", strings.Repeat("é", 500), "1st", "\xff\xfe", " ",
	} {
		chat := &provider.Chat{
			Tools: []provider.Tool{{Name: name}, {Name: "other"}}, ToolChoice: &provider.ToolChoice{Mode: "tool", Name: name},
			Messages: []provider.Message{
				{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: "c", Name: name}}},
				{Role: provider.RoleTool, ToolCallID: "c", Name: name},
				{Role: provider.RoleUser, Name: name},
			},
		}
		got, err := terms.Fit(chat)
		if err != nil {
			t.Fatal(err)
		}
		sent := got.Tools[0].Name
		if !taken.MatchString(sent) || sent != name && taken.MatchString(name) {
			t.Errorf("%q is sent as %q", name, sent)
		}
		if got.ToolChoice.Name != sent || got.Messages[0].ToolCalls[0].Name != sent || got.Messages[1].Name != sent || got.Messages[2].Name != name || got.Tools[1].Name != "other" {
			t.Errorf("%q: %+v", name, got.Chat)
		}
		if chat.Tools[0].Name != name || chat.ToolChoice.Name != name || chat.Messages[0].ToolCalls[0].Name != name {
			t.Errorf("%q: the chat itself changed", name)
		}
		calls := []provider.ToolCall{{Name: sent}, {Name: "other"}, {}}
		if got.Restore(calls); calls[0].Name != name || calls[1].Name != "other" || calls[2].Name != "" {
			t.Errorf("%q: the calls are %v", name, calls)
		}
	}
}

// Two functions never get the same name, whatever their names are.
func TestNamesNeverCollide(t *testing.T) {
	terms := provider.Terms{Functions: provider.NameRule{Longest: 64}}
	fit := func(names ...string) ([]string, error) {
		chat := &provider.Chat{}
		for _, name := range names {
			chat.Tools = append(chat.Tools, provider.Tool{Name: name})
		}
		got, err := terms.Fit(chat)
		if err != nil {
			return nil, err
		}
		sent := make([]string, len(names))
		for i := range names {
			sent[i] = got.Tools[i].Name
		}
		return sent, nil
	}
	short, err := fit("a.b", "a_b", "a:b")
	if err != nil || short[1] != "a_b" || short[0] == short[2] {
		t.Errorf("%q, %v", short, err)
	}
	long, err := fit("a.b", short[0]) // The caller has a function with the short replacement as its name.
	if err != nil || long[1] != short[0] || long[0] == short[0] {
		t.Errorf("%q, %v", long, err)
	}
	if sent, err := fit("a.b", short[0], long[0]); err == nil {
		t.Errorf("%q, want a refusal", sent)
	}
}

// Results come directly after their calls, and what stood between comes after the results.
func TestResultsComeFirst(t *testing.T) {
	calls := func(ids ...string) (m provider.Message) {
		m.Role = provider.RoleAssistant
		for _, id := range ids {
			m.ToolCalls = append(m.ToolCalls, provider.ToolCall{ID: id})
		}
		return m
	}
	result := func(id string) provider.Message { return provider.Message{Role: provider.RoleTool, ToolCallID: id} }
	says := func(role provider.Role, text string) provider.Message {
		return provider.Message{Role: role, Content: []provider.Part{{Text: text}}}
	}
	notice, user, said := says(provider.RoleSystem, "n"), says(provider.RoleUser, "u"), says(provider.RoleAssistant, "a")
	for name, c := range map[string]struct{ given, want []provider.Message }{
		"in order":              {[]provider.Message{user, calls("1", "2"), result("2"), result("1"), user}, nil},
		"a notice between":      {[]provider.Message{calls("1"), notice, result("1")}, []provider.Message{calls("1"), result("1"), notice}},
		"a user between":        {[]provider.Message{calls("1", "2"), result("1"), user, result("2")}, []provider.Message{calls("1", "2"), result("1"), result("2"), user}},
		"a turn between":        {[]provider.Message{calls("1"), said, result("1"), user}, []provider.Message{calls("1"), result("1"), said, user}},
		"calls of two turns":    {[]provider.Message{calls("1"), calls("2"), result("1"), result("2")}, []provider.Message{calls("1"), result("1"), calls("2"), result("2")}},
		"an id that comes back": {[]provider.Message{calls("1"), result("1"), calls("1"), notice, result("1")}, []provider.Message{calls("1"), result("1"), calls("1"), result("1"), notice}},
		"a result of nothing":   {[]provider.Message{user, result("9"), calls("1"), notice, result("1"), result("8")}, []provider.Message{user, result("9"), calls("1"), result("1"), notice, result("8")}},
	} {
		if c.want == nil {
			c.want = c.given
		}
		got, err := new(provider.Terms).Fit(&provider.Chat{Messages: c.given})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got.Messages); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFitGrowsLinearly(t *testing.T) {
	terms := provider.Terms{
		Functions: provider.NameRule{Longest: 64}, NoBlanks: true, Texts: provider.TextsNotBlank, SystemApart: true, UserFirst: true,
	}
	row := func(name string, make func(n int) *provider.Chat) growth.Row {
		return growth.Row{Name: name, Make: func(n int) func() {
			chat := make(n)
			return func() {
				if got, err := terms.Fit(chat); err == nil {
					got.Restore([]provider.ToolCall{{Name: "f"}})
				}
			}
		}}
	}
	growth.Linear(t,
		row("names", func(n int) *provider.Chat {
			chat := question()
			for i := range n {
				chat.Tools = append(chat.Tools, provider.Tool{Name: fmt.Sprint("a.", i)})
			}
			return chat
		}),
		row("a long name", func(n int) *provider.Chat {
			chat := question()
			chat.Tools = []provider.Tool{{Name: strings.Repeat("é", n)}}
			return chat
		}),
		row("blank texts", func(n int) *provider.Chat {
			chat := question()
			chat.Messages = append(chat.Messages, provider.Message{Role: provider.RoleUser, Content: make([]provider.Part, n)})
			return chat
		}),
		row("blank messages", func(n int) *provider.Chat {
			chat := question()
			for range n {
				chat.Messages = append(chat.Messages, provider.Message{Role: provider.RoleSystem, Content: []provider.Part{{Text: "s"}, {}}})
			}
			return chat
		}),
		row("white space at the end", func(n int) *provider.Chat {
			chat := question()
			chat.Messages = append(chat.Messages, provider.Message{Role: provider.RoleAssistant, Content: []provider.Part{{Text: "a" + strings.Repeat(" ", n)}}})
			return chat
		}),
		row("late results", func(n int) *provider.Chat {
			chat := question()
			for i := range n {
				chat.Messages = append(chat.Messages, provider.Message{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: fmt.Sprint(i), Name: "f"}}})
			}
			for i := range n {
				chat.Messages = append(chat.Messages, provider.Message{Role: provider.RoleTool, ToolCallID: fmt.Sprint(i)})
			}
			return chat
		}),
	)
}
