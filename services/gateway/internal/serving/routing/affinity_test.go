package routing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

const hosts = `
default_model: a/m
providers:
  - {name: a, dialect: openai, prompt_cache_ttl: 5m, models: [m]}
  - {name: b, dialect: openai, prompt_cache_ttl: 5m, models: [m]}
  - {name: c, dialect: openai, models: [m]}
  - {name: d, dialect: openai, models: [other]}
goals: {quality: [[b/m, c/m], a/m], cost: [d/other]}
ladder: [d/other]
`

// Requests of one affinity stay together, and many affinities are spread evenly over hosts of equal merit and over no
// others.
func TestAffinitySpreads(t *testing.T) {
	p := policytest.Parse(t, hosts)
	count := make(map[string]int)
	const n = 3000
	for i := range n {
		request := Request{Model: "m", Affinity: mix(uint64(i + 1)), Goal: policy.GoalLatency, Substitution: true}
		plan, err := NewPlan(p, request, State{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		again, _ := NewPlan(p, request, State{Now: now.Add(time.Hour)})
		if names(plan) != names(again) || !strings.HasSuffix(names(plan), " ~d/other") {
			t.Fatalf("%s, then %s", names(plan), names(again))
		}
		count[plan.Candidates[0].Provider]++
	}
	for _, host := range []string{"a", "b", "c"} {
		if count[host] < n/3-150 || count[host] > n/3+150 {
			t.Errorf("shares %v, want a third each", count)
		}
	}
}

// A plan reports that the affinity made its first choice where nothing else distinguished the first from the second.
func TestAffinityIsTold(t *testing.T) {
	p := policytest.Parse(t, hosts)
	live := func(s seen) State { return State{Now: now, Live: s} }
	for name, tt := range map[string]struct {
		request Request
		state   State
		want    bool
	}{
		"hosts of equal merit":      {Request{Model: "m", Affinity: 7, Goal: policy.GoalLatency}, State{Now: now}, true},
		"ranked together":           {Request{Model: "m", Affinity: 7, Goal: policy.GoalQuality}, State{Now: now}, true},
		"without an affinity":       {Request{Model: "m", Goal: policy.GoalLatency}, State{Now: now}, false},
		"a host that is named":      {Request{Model: "b/m", Affinity: 7, Substitution: true}, State{Now: now}, false},
		"the policy's own order":    {Request{Affinity: 7, Goal: policy.GoalCost, Substitution: true}, State{Now: now}, false},
		"the only one that is up":   {Request{Model: "m", Affinity: 7, Goal: policy.GoalLatency}, live(seen{down: map[provider.Target]bool{{Provider: "a", Model: "m"}: true, {Provider: "b", Model: "m"}: true}}), false},
		"the others are as good":    {Request{Model: "m", Affinity: 7, Goal: policy.GoalLatency}, live(seen{down: map[provider.Target]bool{{Provider: "a", Model: "m"}: true}}), true},
		"an operator's pin":         {Request{Model: "m", Affinity: 7}, State{Now: now, Override: steering.Override{Pin: &provider.Target{Provider: "a", Model: "m"}}}, false},
		"where the prompt was last": {Request{Model: "m", Affinity: 7, Goal: policy.GoalLatency}, State{Now: now, Last: provider.Target{Provider: "b", Model: "m"}, LastAt: now}, true},
	} {
		plan, err := NewPlan(p, tt.request, tt.state)
		if err != nil || plan.Affinity != tt.want {
			t.Errorf("%s: %s, %v, affinity %v", name, names(plan), err, plan.Affinity)
		}
	}
}

// The goal's order has precedence over the affinity: only what the policy ranks together is spread.
func TestAffinityKeepsTheGoal(t *testing.T) {
	p := policytest.Parse(t, hosts)
	first := make(map[string]bool)
	for i := range 100 {
		plan, _ := NewPlan(p, Request{Model: "m", Affinity: uint64(i + 1), Goal: policy.GoalQuality}, State{Now: now})
		first[plan.Candidates[0].Provider] = true
	}
	if diff := cmp.Diff(map[string]bool{"b": true, "c": true}, first); diff != "" {
		t.Errorf("first choices (-want +got):\n%s", diff)
	}
}

// When a host goes down only its own affinities move; they come back with it.
func TestAffinityBreaks(t *testing.T) {
	p := policytest.Parse(t, hosts)
	for i := range 300 {
		request := Request{Model: "m", Affinity: mix(uint64(i + 1)), Goal: policy.GoalLatency, Substitution: true}
		before, _ := NewPlan(p, request, State{Now: now})
		after, _ := NewPlan(p, request, State{Now: now, Live: seen{down: map[provider.Target]bool{{Provider: "a", Model: "m"}: true}}})
		if before.Candidates[0].Provider != "a" && before.Candidates[0] != after.Candidates[0] {
			t.Fatalf("%s became %s, though only a is down", names(before), names(after))
		}
		if after.Candidates[0].Provider == "a" || after.Candidates[2].Provider != "a" {
			t.Fatalf("%s, want a behind the other hosts", names(after))
		}
	}
}

// An affinity stays for the vendor's cache time where it was last, also after a failover.
func TestAffinityTable(t *testing.T) {
	p := policytest.Parse(t, hosts)
	clock, down := now, map[provider.Target]bool{}
	r := NewRouter(Options{Policy: p, Affinities: NewAffinityTable(), Live: seen{down: down}, Now: func() time.Time { return clock }})
	request := Request{Model: "m", Goal: policy.GoalLatency, Substitution: true}
	for request.Affinity = 1; ; request.Affinity++ { // One whose first host is a, and b after it.
		if plan, _ := NewPlan(p, request, State{Now: now}); strings.HasPrefix(names(plan), "a/m b/m") {
			break
		}
	}
	at := func(want string) {
		t.Helper()
		plan, err := r.Plan(request)
		if err != nil || plan.Candidates[0].Provider != want {
			t.Fatalf("%s, %v, want %s first", names(plan), err, want)
		}
	}
	at("a")
	down[provider.Target{Provider: "a", Model: "m"}] = true
	at("b")
	down[provider.Target{Provider: "a", Model: "m"}] = false
	clock = clock.Add(4 * time.Minute)
	at("b")
	clock = clock.Add(4 * time.Minute)
	at("b")
	clock = clock.Add(6 * time.Minute)
	at("a")
}

func TestAffinityTableIsBounded(t *testing.T) {
	w := NewAffinityTable()
	w.note(5, provider.Target{Provider: "a", Model: "m"}, now)
	if target, at := w.last(5); target != (provider.Target{Provider: "a", Model: "m"}) || !at.Equal(now) {
		t.Errorf("%s at %s", target, at)
	}
	w.note(5+affinitySlots, provider.Target{Provider: "b", Model: "m"}, now)
	if target, _ := w.last(5); target != (provider.Target{}) || len(w.slots) != affinitySlots {
		t.Errorf("%s of another affinity", target)
	}
}

func chat(texts ...string) *provider.Chat {
	c := &provider.Chat{Messages: []provider.Message{{Role: provider.RoleSystem, Content: []provider.Part{{Text: "be kind"}}}}}
	for i, text := range texts {
		role := provider.RoleUser
		if i%2 == 1 {
			role = provider.RoleAssistant
		}
		c.Messages = append(c.Messages, provider.Message{Role: role, Content: []provider.Part{{Text: text}}})
	}
	return c
}

func TestAffinity(t *testing.T) {
	begin := strings.Repeat("x", maxPrefix)
	base := Affinity("acme", "", chat(begin))
	same := map[string]uint64{
		"the next turn":          Affinity("acme", "", chat(begin, "answer", "question")),
		"the end of a long text": Affinity("acme", "", chat(begin+"more")),
	}
	for name, got := range same {
		if got != base {
			t.Errorf("%s is of another affinity", name)
		}
	}
	tooled := chat(begin)
	tooled.Tools = []provider.Tool{{Name: "f"}}
	other := map[string]uint64{
		"an organization": Affinity("other", "", chat(begin)), "a run": Affinity("acme", "r1", chat(begin)),
		"a beginning": Affinity("acme", "", chat("y"+begin)), "tools": Affinity("acme", "", tooled), "nothing": Affinity("", "", &provider.Chat{}),
	}
	for name, got := range other {
		if got == base || got == 0 {
			t.Errorf("another %s is of the same affinity", name)
		}
	}
	if Affinity("acme", "r1", chat("a")) != Affinity("acme", "r1", chat("b")) {
		t.Error("a run's requests are of different affinities")
	}
	if Affinity("a", "bc", chat()) == Affinity("ab", "c", chat()) {
		t.Error("names run into each other")
	}
}

func TestNeeds(t *testing.T) {
	call := provider.ToolCall{Name: "f", Arguments: "{}"}
	image := provider.Part{ImageURL: "data:image/png;base64,AAAA"}
	message := func(parts []provider.Part, calls ...provider.ToolCall) provider.Message {
		return provider.Message{Content: parts, ToolCalls: calls}
	}
	cases := []struct {
		name string
		chat provider.Chat
		want Needs
	}{
		{"nothing", provider.Chat{}, Needs{}},
		{"text", provider.Chat{MaxTokens: 9, Messages: []provider.Message{message([]provider.Part{{Text: "12345"}, {Text: "678"}})}}, Needs{Context: 2, Output: 9}},
		{"an image counts no text", provider.Chat{Messages: []provider.Message{message([]provider.Part{image})}}, Needs{Vision: true}},
		{"tools", provider.Chat{Tools: []provider.Tool{{Name: "f", Parameters: []byte("{}  ")}}}, Needs{Tools: true, Context: 2}},
		{"a call that was made", provider.Chat{Messages: []provider.Message{message(nil, call)}}, Needs{Tools: true, Context: 1}},
		{"calls that came together", provider.Chat{Messages: []provider.Message{message(nil, call, call)}}, Needs{Tools: true, ParallelTools: true, Context: 2}},
		{"an object", provider.Chat{ResponseFormat: []byte(`{"type":"json_object"}`)}, Needs{JSON: true, Context: 6}},
		{"a schema", provider.Chat{ResponseFormat: []byte(`{"type":"json_schema"}`)}, Needs{JSONSchema: true, Context: 6}},
	}
	for _, c := range cases {
		if diff := cmp.Diff(c.want, ChatNeeds(&c.chat)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if diff := cmp.Diff(Needs{Context: 2, Dimensions: 7}, EmbeddingNeeds(&provider.Embedding{Input: []string{"a", "12345678", ""}, Dimensions: 7})); diff != "" {
		t.Errorf("embedding (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Needs{Context: 1, Images: 3, Size: "1x1"}, ImageNeeds(&provider.ImageRequest{Prompt: "cat", Count: 3, Size: "1x1"})); diff != "" {
		t.Errorf("needs (-want +got):\n%s", diff)
	}
	if fmt.Sprint(Exclusion{Target: provider.Target{Provider: "a", Model: "m"}, Lack: LackContext, Limit: 5}) != "a/m (context: at most 5)" {
		t.Error("an exclusion does not say its limit")
	}
}
