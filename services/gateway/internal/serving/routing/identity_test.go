package routing

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/money/price/pricetest"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// clouds is a policy whose providers have one model under several names.
const clouds = `
default_model: {chat: own/claude-haiku-4-5}
default_goal: quality
providers:
  - name: own
    dialect: anthropic
    base_url: https://own.example
    regions: [us]
    models: [claude-opus-4-5, claude-haiku-4-5, {name: fast, upstream: claude-sonnet-4-6}]
  - name: aws
    dialect: anthropic
    base_url: https://aws.example
    regions: [eu]
    models:
      - {name: "us.anthropic.claude-opus-4-5-20251101-v1:0", limits: {context: 1000}}
      - "eu.anthropic.claude-opus-4-5-20251101-v1:0"
      - {name: tenant, identity: claude-opus-4-5, upstream: "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/a1", operations: [vision]}
      - "cohere.embed-v4:0"
  - name: gcp
    dialect: anthropic
    base_url: https://gcp.example
    models: [claude-opus-4-5@20251101, claude-sonnet-4-6]
  - name: vectors
    dialect: openai
    base_url: https://vectors.example
    models:
      - {name: embed-v4.0, operations: [embeddings], dimensions: {any_of: [256, 512]}}
      - {name: deployed, operations: [embeddings], identity: text-embedding-3-small, dimensions: {min: 1, max: 512}}
      - {name: text-embedding-3-small, operations: [embeddings], dimensions: {min: 1, max: 1536}}
  - name: more
    dialect: openai
    base_url: https://more.example
    models: [{name: "cohere.embed-v4:0", operations: [embeddings]}, {name: alias, upstream: embed-v4.0, operations: [embeddings]}]
ladder: {chat: [own/claude-haiku-4-5], embeddings: [vectors/text-embedding-3-small]}
data_classification: [{organizations: [bank], classifications: {eu: {regions: [eu]}}}]
`

const (
	us = "aws/us.anthropic.claude-opus-4-5-20251101-v1:0"
	eu = "aws/eu.anthropic.claude-opus-4-5-20251101-v1:0"
)

// Hosts of one model under other names follow those of the name that was asked for, and precede the ladder.
func TestHostsOfOneModel(t *testing.T) {
	p := policytest.Parse(t, clouds)
	embed := provider.OperationEmbeddings
	for _, c := range []struct {
		name    string
		request Request
		want    string
	}{
		{
			"a bare name: its hosts, then those of the others",
			Request{Model: "claude-opus-4-5", Substitution: true},
			"own/claude-opus-4-5 " + us + " " + eu + " gcp/claude-opus-4-5@20251101 ~own/claude-haiku-4-5",
		},
		{"without substitution: the hosts of the name", Request{Model: "claude-opus-4-5"}, "own/claude-opus-4-5"},
		{
			"a name with a region stays first",
			Request{Model: "us.anthropic.claude-opus-4-5-20251101-v1:0", Substitution: true},
			us + " own/claude-opus-4-5 " + eu + " gcp/claude-opus-4-5@20251101 ~own/claude-haiku-4-5",
		},
		{"the name of another cloud alone", Request{Model: "claude-opus-4-5@20251101"}, "gcp/claude-opus-4-5@20251101"},
		{
			"a name that no provider lists",
			Request{Model: "claude-opus-4-5-20251101"},
			"own/claude-opus-4-5 " + us + " " + eu + " gcp/claude-opus-4-5@20251101",
		},
		{"the identity as a name", Request{Model: "claude-opus-4.5"}, "own/claude-opus-4-5 " + us + " " + eu + " gcp/claude-opus-4-5@20251101"},
		{
			"a profile that no provider lists",
			Request{Model: "global.anthropic.claude-opus-4-5-20251101-v1:0", Substitution: true},
			"own/claude-opus-4-5 " + us + " " + eu + " gcp/claude-opus-4-5@20251101 ~own/claude-haiku-4-5",
		},
		{
			"a named host: others are substitutes",
			Request{Model: "own/claude-opus-4-5", Substitution: true},
			"own/claude-opus-4-5 ~" + us + " ~" + eu + " ~gcp/claude-opus-4-5@20251101 ~own/claude-haiku-4-5",
		},
		{"a named host by another name", Request{Model: "claude-opus-4-5", Provider: "aws"}, us + " " + eu},
		{"the same as a prefix", Request{Model: "aws/claude-opus-4-5"}, us + " " + eu},
		{"the same without substitution of a name at that host", Request{Model: "aws/us.anthropic.claude-opus-4-5-20251101-v1:0"}, us},
		{
			"a profile of the same host is no substitute",
			Request{Model: "aws/us.anthropic.claude-opus-4-5-20251101-v1:0", Substitution: true},
			us + " ~own/claude-opus-4-5 " + eu + " ~gcp/claude-opus-4-5@20251101 ~own/claude-haiku-4-5",
		},
		{"the vendor's name decides", Request{Model: "fast", Substitution: true}, "own/fast gcp/claude-sonnet-4-6 ~own/claude-haiku-4-5"},
		{
			"a stated identity",
			Request{Model: "tenant", Needs: Needs{Vision: true}, Substitution: true},
			"aws/tenant own/claude-opus-4-5 " + us + " " + eu + " gcp/claude-opus-4-5@20251101",
		},
		{
			"limits are those of the host",
			Request{Model: "claude-opus-4-5", Needs: Needs{Output: 2000}, Substitution: true},
			"own/claude-opus-4-5 " + eu + " gcp/claude-opus-4-5@20251101 ~own/claude-haiku-4-5",
		},
		{"data rules are those of the host", Request{Model: "claude-opus-4-5", Organization: "bank", Classification: "eu", Substitution: true}, us + " " + eu},
		{
			"vectors of one model",
			Request{Model: "embed-v4.0", Operation: embed, Substitution: true},
			"vectors/embed-v4.0 more/cohere.embed-v4:0 more/alias ~vectors/text-embedding-3-small",
		},
		{
			"dimensions are those of the host",
			Request{Model: "cohere.embed-v4:0", Operation: embed, Needs: Needs{Dimensions: 1024}, Substitution: true},
			"more/cohere.embed-v4:0 more/alias ~vectors/text-embedding-3-small",
		},
		{
			"tokens stay with the model",
			Request{Model: "deployed", Operation: embed, Needs: Needs{Tokens: 4}, Substitution: true},
			"vectors/deployed vectors/text-embedding-3-small",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := NewPlan(p, c.request, State{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, names(plan)); diff != "" {
				t.Errorf("candidates (-want +got):\n%s", diff)
			}
		})
	}
}

// What is sent is the name of each host, and each candidate says which model it is.
func TestCandidatesKeepTheirNames(t *testing.T) {
	plan, err := NewPlan(policytest.Parse(t, clouds), Request{Model: "tenant", Substitution: true, Needs: Needs{Vision: true}}, State{})
	if err != nil {
		t.Fatal(err)
	}
	sent := make(map[string]bool)
	for _, c := range plan.Candidates {
		sent[c.Upstream] = true
		if c.Identity != "claude-opus-4.5" {
			t.Errorf("%s has the identity %q", c.Target, c.Identity)
		}
	}
	for _, name := range []string{"claude-opus-4-5", "claude-opus-4-5@20251101", "us.anthropic.claude-opus-4-5-20251101-v1:0"} {
		if !sent[name] {
			t.Errorf("no candidate is sent %s: %v", name, sent)
		}
	}
}

// Names of a model that move, and names of nothing, are not found.
func TestMovingNamesHaveNoHosts(t *testing.T) {
	p := policytest.Parse(t, clouds)
	for _, model := range []string{"claude-opus-latest", "claude-opus-4-8", "aws/claude-haiku-4-5", "own/claude-sonnet-4-7", "us.claude-opus-4-5", "arn:aws:bedrock:x"} {
		if plan, err := NewPlan(p, Request{Model: model, Substitution: true}, State{}); apierr.From(err) == nil || apierr.From(err).Reason != ReasonModelNotFound {
			t.Errorf("%s is served by %s, %v", model, names(plan), err)
		}
	}
}

// The hosts of other names are one section: they are ranked by the goal, and requests of one prompt stay with one of them.
func TestOtherHostsAreRanked(t *testing.T) {
	p := policytest.Parse(t, clouds)
	table := pricetest.Table(t, `
providers:
  - {provider: gcp, models: [{model: "claude-opus-4-5@20251101", effective_from: 2026-01-01, input_per_mtok_usd: "1", output_per_mtok_usd: "1"}]}
  - {provider: aws, models: [{model: "eu.anthropic.claude-opus-4-5-20251101-v1:0", effective_from: 2026-01-01, input_per_mtok_usd: "2", output_per_mtok_usd: "2"}]}
`)
	plan, err := NewPlan(p, Request{Model: "own/claude-opus-4-5", Goal: policy.GoalCost, Substitution: true}, State{Now: now, Prices: table})
	want := "own/claude-opus-4-5 ~gcp/claude-opus-4-5@20251101 ~" + eu + " ~" + us + " ~own/claude-haiku-4-5"
	if err != nil || names(plan) != want {
		t.Errorf("%s, %v, want %s", names(plan), err, want)
	}
	firsts := make(map[string]int)
	for affinity := range uint64(64) {
		plan, err := NewPlan(p, Request{Model: "claude-opus-4.5", Substitution: true, Affinity: affinity + 1}, State{})
		if err != nil || !plan.Affinity {
			t.Fatalf("%s, %v: the affinity did not choose", names(plan), err)
		}
		firsts[plan.Candidates[0].String()]++
	}
	if len(firsts) != 4 {
		t.Errorf("the prompts go to %v, want all four hosts", firsts)
	}
}

// The end of a model at one host is not its end at the others. A caller who names the host is told of its end.
func TestAHostsEndIsItsOwn(t *testing.T) {
	p := policytest.Parse(t, clouds)
	own := provider.Target{Provider: "own", Model: "claude-opus-4-5"}
	s := State{Now: now, Lifecycles: ends{own: {Cutoff: now.Add(-time.Hour), Successor: "claude-opus-5"}}}
	for _, c := range []struct {
		request Request
		want    string
	}{
		{Request{Model: "claude-opus-4-5", Substitution: true}, us + " " + eu + " gcp/claude-opus-4-5@20251101 ~own/claude-haiku-4-5"},
		{Request{Model: "claude-opus-4-5"}, us + " " + eu + " gcp/claude-opus-4-5@20251101"},
		{Request{Model: "gcp/claude-opus-4-5@20251101", Substitution: true}, "gcp/claude-opus-4-5@20251101 ~" + us + " ~" + eu + " ~own/claude-haiku-4-5"},
		{Request{Model: "own/claude-opus-4-5", Substitution: true}, ""},
	} {
		plan, err := NewPlan(p, c.request, s)
		if names(plan) != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v: %s, %v, want %s", c.request, names(plan), err, c.want)
		}
		if err != nil && apierr.From(err).Reason != ReasonModelRetired {
			t.Errorf("%s: %v, want %s", c.request.Model, err, ReasonModelRetired)
		}
	}
	for _, o := range p.HostsOf("claude-opus-4.5") {
		s.Lifecycles.(ends)[o.Target] = &Lifecycle{Cutoff: now}
	}
	if _, err := NewPlan(p, Request{Model: "claude-opus-4-5", Substitution: true}, s); apierr.From(err) == nil || apierr.From(err).Reason != ReasonModelRetired {
		t.Errorf("ended everywhere: %v", err)
	}
}

// A pin to a provider of the model is a substitute for the name that was asked for, as before.
func TestPinsGoByName(t *testing.T) {
	pin := provider.Target{Provider: "gcp", Model: "claude-opus-4-5@20251101"}
	s := State{Override: steering.Override{Pin: &pin}}
	p := policytest.Parse(t, clouds)
	if plan, err := NewPlan(p, Request{Model: "claude-opus-4-5", Substitution: true}, s); err != nil || names(plan) != "~"+pin.String() {
		t.Errorf("%s, %v", names(plan), err)
	}
	if _, err := NewPlan(p, Request{Model: "claude-opus-4-5"}, s); err == nil {
		t.Error("a pin stands in where no substitution is allowed")
	}
}

// ends are lifecycles by target; a listed model is never found as unlisted.
type ends map[provider.Target]*Lifecycle

func (e ends) Lifecycle(t provider.Target) *Lifecycle { return e[t] }

func (e ends) FindRetired(string, string, time.Time) (provider.Target, *Lifecycle) {
	return provider.Target{}, nil
}
