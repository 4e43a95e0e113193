package routing

import (
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

func TestRankByCost(t *testing.T) {
	p, table := policytest.Parse(t, policytest.Wide), prices(t)
	cases := []struct {
		name    string
		request Request
		now     time.Time
		want    string
	}{
		// For a token of input and 500 of output: small 10001, big 4002, wise 2505.
		{"the ladder, by what the request will cost", Request{Model: "flash", Goal: policy.GoalCost}, now, "three/flash ~two/wise ~one/big"},
		// 2000 of input: big 8000, wise 12500.
		{"a long input turns it round", Request{Model: "flash", Goal: policy.GoalCost, Needs: Needs{Context: 2000}}, now, "three/flash ~one/big ~two/wise"},
		// Output 5000 for input 2000: big 44000, wise 35000.
		{"so does a long answer", Request{Model: "flash", Goal: policy.GoalCost, Needs: Needs{Context: 2000, Output: 5000}}, now, "three/flash ~two/wise ~one/big"},
		{"hosts of one model; what has no price is last", Request{Model: "shared", Goal: policy.GoalCost}, now, "two/shared one/shared three/shared ~two/wise ~one/big ~three/flash"},
		{"the policy's choice, then the ladder", Request{Goal: policy.GoalCost}, now, "two/wise one/big one/small three/flash"},
		{"the price of the day", Request{Goal: policy.GoalCost}, now.AddDate(1, 0, 0), "one/small two/wise one/big three/flash"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.request.Substitution = true
			plan, err := NewPlan(p, c.request, State{Now: c.now, Prices: table})
			if err != nil || names(plan) != c.want {
				t.Errorf("%s, %v, want %s", names(plan), err, c.want)
			}
		})
	}
	plan, err := NewPlan(p, Request{Goal: policy.GoalCost, Substitution: true}, State{Now: now})
	if err != nil || names(plan) != "one/small two/wise one/big three/flash" {
		t.Errorf("without prices: %s, %v, want the policy's ranks", names(plan), err)
	}
}

// Images are compared by the usual price of one.
func TestRankImagesByCost(t *testing.T) {
	p := policytest.Parse(t, policytest.Wide)
	plan, err := NewPlan(p, Request{Operation: provider.OperationImages, Goal: policy.GoalCost, Model: "easel", Substitution: true}, State{Now: now, Prices: prices(t)})
	if err != nil || names(plan) != "three/easel" {
		t.Errorf("%s, %v", names(plan), err)
	}
}

func TestRankByLatency(t *testing.T) {
	p := policytest.Parse(t, policytest.Wide)
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	cases := []struct {
		name string
		seen map[provider.Target]time.Duration
		want string
	}{
		{"nothing seen: the policy's ranks", nil, "three/flash one/small one/big two/wise"},
		{"all seen", map[provider.Target]time.Duration{{Provider: "three", Model: "flash"}: ms(900), {Provider: "one", Model: "small"}: ms(500), {Provider: "one", Model: "big"}: ms(300), {Provider: "two", Model: "wise"}: ms(100)}, "two/wise one/big one/small three/flash"},
		{"those seen change places; the others keep theirs", map[provider.Target]time.Duration{{Provider: "three", Model: "flash"}: ms(900), {Provider: "two", Model: "wise"}: ms(100)}, "two/wise one/small one/big three/flash"},
		{"about equal: the policy's ranks", map[provider.Target]time.Duration{{Provider: "three", Model: "flash"}: ms(520), {Provider: "one", Model: "small"}: ms(500)}, "three/flash one/small one/big two/wise"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			plan, err := NewPlan(p, Request{Goal: policy.GoalLatency}, State{Now: now, Live: seen{latency: c.seen}})
			if err != nil || names(plan) != c.want {
				t.Errorf("%s, %v, want %s", names(plan), err, c.want)
			}
		})
	}
}

func TestCoarse(t *testing.T) {
	for _, c := range []struct {
		a, b time.Duration
		same bool
	}{
		{time.Second, time.Second + 50*time.Millisecond, true},
		{time.Second, 1300 * time.Millisecond, false},
		{0, 1, true},
		{-time.Second, 1, true},
		{time.Millisecond, time.Hour, false},
	} {
		if got := coarse(c.a) == coarse(c.b); got != c.same {
			t.Errorf("%s and %s: same %t, want %t", c.a, c.b, got, c.same)
		}
		if c.a < c.b && coarse(c.a) > coarse(c.b) {
			t.Errorf("%s is above %s", c.a, c.b)
		}
	}
}
