package fault

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecide(t *testing.T) {
	call := Call{
		Method: http.MethodPost, Path: "/v1/chat/completions",
		Header: http.Header{"X-Org": {"acme"}, "Accept": {"text/plain", "text/event-stream"}},
		Body:   []byte(`{"model":"gpt"}`),
	}
	status := func(n int) Action { return Action{Status: n} }
	tests := []struct {
		name    string
		rules   []Rule
		want    int
		left    []Rule
		matched bool
	}{
		{name: "no rules"},
		{
			name:    "empty match takes every call, for ever",
			rules:   []Rule{{Action: status(500)}},
			want:    500,
			left:    []Rule{{Action: status(500)}},
			matched: true,
		},
		{
			name:    "the first that matches wins",
			rules:   []Rule{{Match: Match{Path: "/v1/embeddings"}, Action: status(500)}, {Match: Match{Path: "/v1/chat*"}, Action: status(501)}, {Action: status(502)}},
			want:    501,
			left:    []Rule{{Match: Match{Path: "/v1/embeddings"}, Action: status(500)}, {Match: Match{Path: "/v1/chat*"}, Action: status(501)}, {Action: status(502)}},
			matched: true,
		},
		{
			name:    "times counts down",
			rules:   []Rule{{Times: 3, Action: status(500)}},
			want:    500,
			left:    []Rule{{Times: 2, Action: status(500)}},
			matched: true,
		},
		{
			name:    "the last time removes the rule, the others stay",
			rules:   []Rule{{Match: Match{Method: "GET"}, Action: status(1)}, {Times: 1, Action: status(500)}, {Action: status(2)}},
			want:    500,
			left:    []Rule{{Match: Match{Method: "GET"}, Action: status(1)}, {Action: status(2)}},
			matched: true,
		},
		{
			name:    "method in small letters, header value by pattern, body by part",
			rules:   []Rule{{Match: Match{Method: "post", Header: map[string]string{"x-org": "ac*", "accept": "*stream"}, Body: `"gpt"`}, Action: status(500)}},
			want:    500,
			left:    []Rule{{Match: Match{Method: "post", Header: map[string]string{"x-org": "ac*", "accept": "*stream"}, Body: `"gpt"`}, Action: status(500)}},
			matched: true,
		},
		{
			name:  "one field that differs is enough",
			rules: []Rule{{Match: Match{Path: "*", Header: map[string]string{"X-Org": "other"}}, Times: 1, Action: status(500)}},
			left:  []Rule{{Match: Match{Path: "*", Header: map[string]string{"X-Org": "other"}}, Times: 1, Action: status(500)}},
		},
		{
			name:  "an absent header does not match a star",
			rules: []Rule{{Match: Match{Header: map[string]string{"X-None": "*"}}, Action: status(500)}},
			left:  []Rule{{Match: Match{Header: map[string]string{"X-None": "*"}}, Action: status(500)}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := append([]Rule(nil), tt.rules...)
			action, left, matched := Decide(tt.rules, call)
			if matched != tt.matched || action.Status != tt.want {
				t.Errorf("Decide = status %d, matched %v; want %d, %v", action.Status, matched, tt.want, tt.matched)
			}
			if diff := cmp.Diff(tt.left, left); diff != "" {
				t.Errorf("rules left (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tt.rules); diff != "" {
				t.Errorf("the argument changed (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{
		{"/v1/chat*", "/v1/chat/completions"},
		{"*", ""},
		{"a*b*b", "ab"},
		{"*ab*ab*", "xababx"},
		{"a**b", "ab"},
		{"", "x"},
		{"a*a", "a"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if !isASCII(pattern) || !isASCII(s) {
			t.Skip("the oracle works on runes, glob on bytes")
		}
		expr := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, "(?s:.*)")
		want := regexp.MustCompile(`\A` + expr + `\z`).MatchString(s)
		if got := glob(pattern, s); got != want {
			t.Errorf("glob(%q, %q) = %v, want %v", pattern, s, got, want)
		}
	})
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 127 }) < 0
}

func TestParseScript(t *testing.T) {
	tests := []struct {
		name string
		in   string
		want string // part of the error; empty = accepted
	}{
		{"empty", `{}`, ""},
		{"everything at once", `{"rules":[{"match":{"path":"/x*","header":{"A":"b"}},"times":3,"action":{"status":503,"body":"b","headers":{"A":"b"},"delay_ms":1,"drop":true,"after_bytes":0,"stall_after_chunks":0,"error_after_chunks":1,"reset":true,"slow_head_ms":1,"slow_body_ms":1,"endless_headers":true,"redirect":"/","retry_after":"soon","half_close":true,"informational":2,"filler_mb":1,"gzip":true,"answer":{"text":"x"}}}]}`, ""},
		{"misspelt action", `{"rules":[{"action":{"staus":503}}]}`, "staus"},
		{"not JSON", `{`, "parse script"},
		{"status out of range", `{"rules":[{"action":{}},{"action":{"status":99}}]}`, "rule 1: status 99"},
		{"negative delay", `{"rules":[{"action":{"delay_ms":-1}}]}`, "delay_ms"},
		{"delay without end", `{"rules":[{"action":{"delay_ms":600001}}]}`, "delay_ms"},
		{"negative chunks", `{"rules":[{"action":{"stall_after_chunks":-1}}]}`, "stall_after_chunks"},
		{"negative times", `{"rules":[{"times":-1,"action":{}}]}`, "times"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseScript(strings.NewReader(tt.in))
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want one that names %q", err, tt.want)
			}
		})
	}
}

func TestSummaryHoldsNoText(t *testing.T) {
	a := Action{Status: 503, Body: "SECRET", DelayMS: 5, Headers: map[string]string{"A": "SECRET"}, AfterBytes: new(3), Reset: true}
	if got, want := a.Summary(), "delay 503 cut reset"; got != want {
		t.Errorf("Summary() = %q, want %q", got, want)
	}
}
