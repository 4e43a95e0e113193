package export

import (
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit/growth"
)

const example = `
ledger_token_file: operator-token
destinations:
  - name: billing
    kind: stripe
    base_url: https://api.stripe.com
    key_file: keys/stripe
    customers: {acme: cus_1}
    meters: {llm_requests: llm_requests, ledger.cost_pico_usd: llm_cost}
`

func TestRead(t *testing.T) {
	s, err := Read([]byte(example), "/etc/exports", []string{"llm_requests"})
	if err != nil {
		t.Fatal(err)
	}
	d := s.Destinations[0]
	if s.Every != 5*time.Minute || s.Lease != 30*time.Second || d.KeyFile != secret.File("/etc/exports/keys/stripe") {
		t.Errorf("got %+v", s)
	}
	if !d.reads(Counts) || !d.reads(Ledger) || !s.Reads(Ledger) {
		t.Errorf("it reads counts: %v, the ledger: %v; want both", d.reads(Counts), d.reads(Ledger))
	}
}

// What is wrong is named with its place.
func TestReadRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ old, by, want string }{
		"an unknown field":          {"kind:", "sort:", "sort"},
		"an unknown kind":           {"stripe\n    base", "paypal\n    base", "destinations[0]: kind:"},
		"a name with spaces":        {"name: billing", "name: a b", "destinations[0]: name:"},
		"a URL with a password":     {"https://api", "https://u:p@api", "destinations[0]: base_url:"},
		"no key":                    {"key_file: keys/stripe", "", "destinations[0]: key_file:"},
		"a key in place of a file":  {"keys/stripe", "https://x", "not the secret"},
		"an unknown metric":         {"llm_requests:", "calls:", `destinations[0]: meters["calls"]: not a metric`},
		"fractions at Stripe":       {"cost_pico_usd", "cost_cents", "whole numbers only"},
		"a stream without its URL":  {"kind: stripe", "kind: stripe-stream", "destinations[0]: stream_url:"},
		"a stream of another kind":  {"base_url:", "stream_url: https://x\n    base_url:", "stream_url: only with"},
		"an interval of nothing":    {"destinations:", "every: 0s\ndestinations:", "every:"},
		"an empty customer":         {"cus_1", `""`, `destinations[0]: customers["acme"]`},
		"a name that is used twice": {"  - name: billing", "  - {name: billing, kind: lago, base_url: 'http://l', key_file: k, meters: {llm_requests: x}}\n  - name: billing", "used twice"},
	} {
		text := strings.Replace(example, tt.old, tt.by, 1)
		if text == example {
			t.Fatalf("%s: the example has no %q", name, tt.old)
		}
		if _, err := Read([]byte(text), "", []string{"llm_requests"}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tt.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(example)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Read([]byte(text), "/folder", []string{"llm_requests"})
		if err == nil && (len(s.Destinations) == 0 || s.Every <= 0) {
			t.Errorf("accepted %+v", s)
		}
	})
}

func TestReadGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around("destinations: ", growth.Text, ""), growth.Around("destinations: [{name: '", growth.Text, "'}]")...)
	growth.Linear(t, growth.EachText(append(inputs, growth.Text...), func(text string) { _, _ = Read([]byte(text), "", nil) })...)
}
