package policy_test

import (
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

const limited = `default_model: vendor/large
providers:
  - name: vendor
    dialect: openai
    base_url: https://vendor.example/v1
    models: [large, small, tiny, {name: other}]
    credentials:
      - {name: a, key_file: a.key, tpm: 1000, rpm: 10, concurrency: 2, quota_group: account}
      - {name: b, key_file: b.key, tpm: 1000, rpm: 10, concurrency: 2, quota_group: account}
      - name: c
        key_file: c.key
        tpm: 500
        model_quotas: [{models: [small, tiny], tpm: 9000}, {models: [other]}]
      - {name: free, key_file: d.key}
quotas:
  max_wait: 3s
  organizations:
    - {organizations: [acme], tpm: 700}
    - {organizations: ["acme*", "ltd"], rpm: 5, concurrency: 1}
`

func TestQuotas(t *testing.T) {
	p := policytest.Parse(t, limited)
	for name, c := range map[string]struct {
		credential, model string
		unlisted          bool
		subject           quota.Subject
		limit             quota.Limit
	}{
		"of a group":               {"a", "large", false, "credential/vendor/account/large", quota.Limit{Tokens: 1000, Requests: 10, Concurrent: 2}},
		"of the same group":        {"b", "large", false, "credential/vendor/account/large", quota.Limit{Tokens: 1000, Requests: 10, Concurrent: 2}},
		"of another model":         {"b", "small", false, "credential/vendor/account/small", quota.Limit{Tokens: 1000, Requests: 10, Concurrent: 2}},
		"of a credential":          {"c", "large", false, "credential/vendor/c/large", quota.Limit{Tokens: 500}},
		"of some models":           {"c", "tiny", false, "credential/vendor/c/small", quota.Limit{Tokens: 9000}},
		"none of a model":          {"c", "other", false, "credential/vendor/c/other", quota.Limit{}},
		"of invented models":       {"c", "invented", true, "credential/vendor/c/*", quota.Limit{Tokens: 500}},
		"of a very long name":      {"c", strings.Repeat("x", 999), false, quota.Subject("credential/vendor/c/" + strings.Repeat("x", 100)), quota.Limit{Tokens: 500}},
		"none":                     {"free", "large", false, "", quota.Limit{}},
		"of an unknown one":        {"gone", "large", false, "", quota.Limit{}},
		"of an organization's own": {"", "large", false, "", quota.Limit{}},
	} {
		subject, limit := p.CredentialQuota(provider.Target{Provider: "vendor", Model: c.model}, c.unlisted, c.credential)
		if subject != c.subject || limit != c.limit {
			t.Errorf("%s: %q %+v, want %q %+v", name, subject, limit, c.subject, c.limit)
		}
	}
	for organization, want := range map[string]quota.Limit{
		"acme": {Tokens: 700}, "acme-dev": {Requests: 5, Concurrent: 1}, "ltd": {Requests: 5, Concurrent: 1}, "other": {},
	} {
		if got := p.OrganizationQuota(organization); got != want {
			t.Errorf("%s: %+v, want %+v", organization, got, want)
		}
	}
	if got := p.MaxQuotaWait(); got != 3*time.Second || !p.HasQuotas() {
		t.Errorf("%s, %t", got, p.HasQuotas())
	}
	if p := policytest.Parse(t, policytest.Wide); p.HasQuotas() || p.MaxQuotaWait() != policy.DefaultMaxWait {
		t.Errorf("a policy without quotas: %t, %s", p.HasQuotas(), p.MaxQuotaWait())
	}
	if got := policytest.Parse(t, strings.Replace(limited, "3s", "0s", 1)).MaxQuotaWait(); got != 0 {
		t.Errorf("no wait: %s", got)
	}
}

func TestQuotaProblems(t *testing.T) {
	for edit, want := range map[[2]string]string{
		{"tpm: 500", "tpm: -1"}:                            `credentials[2] "c": tpm: want 1 to 1099511627776`,
		{"tpm: 500", "rpm: -1"}:                            `credentials[2] "c": rpm: want 1 to 1099511627776`,
		{"tpm: 500", "concurrency: 100001"}:                `credentials[2] "c": concurrency: want 1 to 100000`,
		{"tpm: 500", "quota_group: A"}:                     `credentials[2] "c": quota_group: want lower-case letters`,
		{"b.key, tpm: 1000", "b.key, tpm: 1001"}:           `credentials[1] "b": quota_group: has other limits than credential "a" of the group`,
		{"[small, tiny]", "[]"}:                            `credentials[2] "c": model_quotas[0].models: is required`,
		{"[small, tiny]", "[small, huge]"}:                 `credentials[2] "c": model_quotas[0].models: the provider lists no model "huge"`,
		{"[small, tiny]", "[small, other]"}:                `credentials[2] "c": model_quotas[1].models: "other" has a quota already`,
		{"tpm: 9000", "tpm: 1099511627777"}:                `credentials[2] "c": model_quotas[0].tpm: want 1 to`,
		{"max_wait: 3s", "max_wait: 301s"}:                 "quotas.max_wait: want at most 5m0s",
		{"max_wait: 3s", "max_wait: -1s"}:                  "quotas.max_wait: want at most 5m0s",
		{"organizations: [acme], ", ""}:                    "quotas.organizations[0].organizations: is required",
		{`["acme*", "ltd"], rpm: 5`, `["acme*"], rpm: -5`}: "quotas.organizations[1].rpm: want 1 to",
	} {
		text := strings.Replace(limited, edit[0], edit[1], 1)
		if text == limited {
			t.Fatalf("%q is not in the policy", edit[0])
		}
		_, err := policy.Parse(policy.Source{Text: []byte(text), KeysDir: t.TempDir()}, policy.Source{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", edit[1], err, want)
		}
	}
}
