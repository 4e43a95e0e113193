package routing

import (
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// lifecycles are the lifecycles of a test.
type lifecycles map[provider.Target]*Lifecycle

func (l lifecycles) Lifecycle(t provider.Target) *Lifecycle { return l[t] }

func (l lifecycles) FindRetired(_, model string, at time.Time) (provider.Target, *Lifecycle) {
	for t, life := range l {
		if t.Model == model && life.IsRetired(at) {
			return t, life
		}
	}
	return provider.Target{}, nil
}

func TestPlansGoByLives(t *testing.T) {
	before, after := now.Add(-time.Hour), now.Add(time.Hour)
	retired := &Lifecycle{Cutoff: before, Successor: "next", Warning: "w"}
	deprecated := &Lifecycle{Deprecated: before, Cutoff: after, Successor: "next", Warning: "move on"}
	later := &Lifecycle{Deprecated: after, Cutoff: after.Add(time.Hour), Warning: "w"}
	for _, c := range []struct {
		name       string
		lifecycles lifecycles
		request    Request
		pin        *provider.Target
		want       string // candidates and the warning, or the reason and a part of the refusal
	}{
		{"a retired model is refused, whatever stands behind it", lifecycles{{Provider: "one", Model: "small"}: retired}, Request{Model: "small", Substitution: true}, nil, "model_retired one/small was retired on 2026-11-21; use next"},
		{"also in full", lifecycles{{Provider: "one", Model: "small"}: retired}, Request{Model: "one/small"}, nil, "model_retired use next"},
		{"also by a pin", lifecycles{{Provider: "one", Model: "small"}: retired}, Request{Model: "small", Substitution: true}, &provider.Target{Provider: "two", Model: "wise"}, "model_retired one/small"},
		{"a provider whose default is retired", lifecycles{{Provider: "one", Model: "small"}: retired}, Request{Provider: "one", Substitution: true}, nil, "model_retired one/small"},
		{"a host of a model that others have", lifecycles{{Provider: "one", Model: "shared"}: retired}, Request{Model: "shared"}, nil, "two/shared three/shared"},
		{"all hosts", lifecycles{{Provider: "one", Model: "shared"}: retired, {Provider: "two", Model: "shared"}: retired, {Provider: "three", Model: "shared"}: retired}, Request{Model: "shared", Substitution: true}, nil, "model_retired one/shared"},
		{"a step of the ladder", lifecycles{{Provider: "two", Model: "wise"}: retired}, Request{Model: "small", Substitution: true}, nil, "one/small ~one/big ~three/flash"},
		{"a choice of the policy", lifecycles{{Provider: "two", Model: "wise"}: retired}, Request{Goal: policy.GoalQuality, Substitution: true}, nil, "one/big three/flash"},
		{"one that nobody lists any more", lifecycles{{Provider: "one", Model: "ancient"}: retired}, Request{Model: "ancient", Substitution: true}, nil, "model_retired one/ancient"},
		{"one that nobody ever had", lifecycles{{Provider: "one", Model: "ancient"}: retired}, Request{Model: "nonsense", Substitution: true}, nil, "model_not_found nonsense"},
		{"a pin on a retired model", lifecycles{{Provider: "two", Model: "wise"}: retired}, Request{Substitution: true}, &provider.Target{Provider: "two", Model: "wise"}, "capability_unsupported two/wise (retired)"},
		{"a deprecated model is served with a warning", lifecycles{{Provider: "one", Model: "small"}: deprecated}, Request{Model: "small"}, nil, "one/small: move on"},
		{"also where the policy chose it", lifecycles{{Provider: "one", Model: "big"}: deprecated}, Request{}, nil, "one/big two/wise three/flash: move on"},
		{"also by a pin", lifecycles{{Provider: "two", Model: "wise"}: deprecated}, Request{Substitution: true}, &provider.Target{Provider: "two", Model: "wise"}, "two/wise: move on"},
		{"not yet", lifecycles{{Provider: "one", Model: "small"}: later}, Request{Model: "small"}, nil, "one/small"},
		{"a fallback that is deprecated warns nobody", lifecycles{{Provider: "two", Model: "wise"}: deprecated}, Request{Model: "small", Substitution: true}, nil, "one/small ~two/wise ~one/big ~three/flash"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := policytest.Parse(t, policytest.Wide)
			plan, err := NewPlan(p, c.request, State{Now: now, Lifecycles: c.lifecycles, Override: steering.Override{Pin: c.pin}})
			reason, text, _ := strings.Cut(c.want, " ")
			if err != nil {
				if e := apierr.From(err); string(e.Reason) != reason || !strings.Contains(e.Text, text) {
					t.Errorf("%s %s, want %s", e.Reason, e.Text, c.want)
				}
				return
			}
			got := names(plan)
			if plan.Warning != "" {
				got += ": " + plan.Warning
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// The listing omits refused models.
func TestListingLeavesRetiredOut(t *testing.T) {
	router := NewRouter(Options{Policy: policytest.Parse(t, policytest.Wide), Now: func() time.Time { return now }, Lifecycles: lifecycles{{Provider: "one", Model: "big"}: {Cutoff: now}}})
	for _, target := range router.Listing() {
		if target.Model == "big" {
			t.Error("big is listed")
		}
	}
	if n := len(router.Listing()); n != len(policytest.Parse(t, policytest.Wide).Listing())-1 {
		t.Errorf("%d models", n)
	}
}

func TestRanking(t *testing.T) {
	p := policytest.Parse(t, policytest.Wide)
	slow := seen{latency: map[provider.Target]time.Duration{{Provider: "one", Model: "big"}: 40 * time.Millisecond, {Provider: "two", Model: "wise"}: 900 * time.Millisecond}}
	by := make(map[string][]RankedCandidate)
	for _, s := range Ranking(p, State{Now: now, Prices: prices(t), Live: slow, Override: steering.Override{Pin: &provider.Target{Provider: "three", Model: "flash"}}}) {
		by[string(s.Operation)+" "+string(s.Goal)] = append(by[string(s.Operation)+" "+string(s.Goal)], s)
	}
	for _, c := range []struct{ of, want string }{
		{"chat quality", "1 two/wise 1 rank 1 of the policy for quality|2 one/big 2 rank 2 of the policy for quality|3 three/flash 3 rank 3 of the policy for quality"},
		{"chat latency", "1 three/flash"},
		{"embeddings cost", "1 one/vectors"},
	} {
		got := by[c.of]
		if len(got) == 0 {
			t.Errorf("%s: nobody", c.of)
			continue
		}
		for i, want := range strings.Split(c.want, "|") {
			s := got[i]
			if text := strings.TrimSpace(strings.Join([]string{string(rune('0' + s.Rank)), s.String()}, " ")); !strings.HasPrefix(want, text) {
				t.Errorf("%s: %d is %+v, want %s", c.of, i, s, want)
			}
		}
		for i, s := range got {
			if s.Rank != i+1 || s.Reason == "" {
				t.Errorf("%s: %+v", c.of, s)
			}
		}
	}
	// The order is that of a request that names only the operation and the goal.
	for _, goal := range policy.Goals() {
		plan, err := NewPlan(p, Request{Goal: goal, Substitution: true}, State{Now: now, Prices: prices(t), Live: slow})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range by["chat "+string(goal)] {
			if plan.Candidates[i].Target != s.Target {
				t.Errorf("%s: rank %d is %s, a request goes to %s", goal, s.Rank, s.Target, plan.Candidates[i])
			}
		}
	}
	cost := by["chat cost"]
	if cost[0].Target != (provider.Target{Provider: "two", Model: "wise"}) || cost[0].Score != 500 {
		t.Errorf("%+v, want two/wise at 500 cents per million tokens", cost[0])
	}
}
