package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

func TestKeyFilesAreAbsolute(t *testing.T) {
	var got []string
	for _, p := range policytest.ParseSmall(t).Providers {
		got = append(got, p.KeyFile)
	}
	want := []string{"", "/keys/alpha.key", "/abs/beta.key", "/nonexistent/local.key"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("key files (-want +got):\n%s", diff)
	}
}

func TestExtraProviderReplaces(t *testing.T) {
	extra := `providers: [{name: alpha, dialect: openai, base_url: "http://127.0.0.1:9"}]`
	p, err := policy.Parse(policy.Source{Text: []byte(policytest.Small)}, policy.Source{Text: []byte(extra)})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Offer(provider.Target{Provider: "alpha", Model: "m1"}).Settings; got.BaseURL != "http://127.0.0.1:9" || got.KeyFile != "" || len(got.Models) != 3 {
		t.Errorf("alpha = %+v, want the new address, no key and the models it had", got)
	}
}

// The setting of batch jobs reaches the adapter: absent is not false.
func TestBatchesReachTheAdapter(t *testing.T) {
	for setting, want := range map[string]*bool{"": nil, ", batches: true": new(true), ", batches: false": new(false)} {
		extra := `providers: [{name: alpha, dialect: openai, base_url: "http://127.0.0.1:9"` + setting + `}]`
		p, err := policy.Parse(policy.Source{Text: []byte(policytest.Small)}, policy.Source{Text: []byte(extra)})
		if err != nil {
			t.Fatal(err)
		}
		got := p.Offer(provider.Target{Provider: "alpha", Model: "m1"}).Settings.Adapter().Batches
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", setting, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	cases := []struct{ name, policy, extra, want string }{
		{"unknown field", policytest.Small + "colour: red\n", "", "colour"},
		{"unknown field of a model", policytest.Small, "providers: [{name: x, dialect: openai, models: [{name: m, colour: red}]}]", "colour"},
		{"bad price", policytest.Small, "providers: [{name: x, dialect: openai, models: [{name: m, input_per_mtok_usd: cheap}]}]", "line 1: want a price"},
		{"bad name", policytest.Small, "providers: [{name: X Y}]", "lower-case"},
		{"twice in the policy", strings.ReplaceAll(policytest.Small, "name: beta", "name: alpha"), "", "appears twice"},
		{"a model twice", policytest.Small, "providers: [{name: x, dialect: openai, models: [m, m]}]", "or a duplicate"},
		{"a reserved model", policytest.Small, "providers: [{name: x, dialect: openai, models: [default]}]", "reserved"},
		{"unknown default", strings.Replace(policytest.Small, "box/small", "box/huge", 1), "", "default_model"},
		{"unknown goal", strings.Replace(policytest.Small, "default_goal: quality", "default_goal: fun", 1), "", "default_goal"},
		{"ranks of an unknown goal", strings.Replace(policytest.Small, "  cost:", "  fun:", 1), "", "goals.fun"},
		{"unknown target in the ladder", strings.Replace(policytest.Small, "ladder: [alpha/m1", "ladder: [gamma/m1", 1), "", "gamma/m1"},
		{"not YAML", "\t", "", "policy"},
		{"extra is not YAML", policytest.Small, "\t", "extra providers"},
		{"empty", "", "", "default_model"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := policy.Parse(policy.Source{Text: []byte(c.policy)}, policy.Source{Text: []byte(c.extra)})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(policytest.Small, policytest.SmallExtra)
	f.Fuzz(func(t *testing.T, text, extra string) {
		p, err := policy.Parse(policy.Source{Text: []byte(text)}, policy.Source{Text: []byte(extra)})
		if err != nil {
			return
		}
		if p.Default(provider.OperationChat) == nil {
			t.Error("a valid policy has no default model for chat")
		}
	})
}
