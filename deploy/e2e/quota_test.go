//go:build e2e

package e2e_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/dev/store"
)

// What each credential of the limited vendor allows in a minute, and what one call takes of it.
const (
	limitedTPM    = 20_000
	limitedTokens = 200
)

var limitedVendor = vendor{
	name: "limited", dialect: "openai", model: "limited", pool: []string{"a", "b", "c", "d", "e", "f", "g", "h"},
	quota: object{"tpm": limitedTPM},
}

// limitedCallers are the callers of each organization. The first asks for much less than its part.
var limitedCallers = []int{2, 12, 12, 12, 24}

// disturbance is what happens to a member during the load.
type disturbance struct {
	after time.Duration
	name  string
	kill  bool
}

// Eight credentials keep to their limits over three replicas, under more than twice the load that they allow, while
// replicas and Redis are killed. Requests wait, and an organization that asks for little waits less than the others.
// QUOTA_FOR is the time of the load; the default is short, and long enough for a minute with all that happens.
func TestTokenLimitsHold(t *testing.T) {
	t.Parallel()
	h := plan{name: "limited", replicas: map[stack.Service]int{stack.Gateway: 3}, vendors: []vendor{limitedVendor}, idle: true}.start(t)
	h.script(t, stack.FakeProvider, rule{Match: limitedVendor.match(), Action: object{
		"delay_ms": 300, "answer": object{"text": "as expected", "usage": object{"input": limitedTokens / 2, "output": limitedTokens / 2}},
	}})
	length := 80 * time.Second
	if text := os.Getenv("QUOTA_FOR"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	load := h.startLimitedLoad(t)
	begun := time.Now()
	for _, d := range []disturbance{
		{length * 2 / 8, member(stack.Gateway, 2), true},
		{length*2/8 + 2*time.Second, member(stack.Gateway, 2), false},
		{length * 3 / 8, store.Redis, true},
		{length*3/8 + 4*time.Second, store.Redis, false},
		{length * 5 / 8, member(stack.Gateway, 3), true},
		{length*5/8 + 7*time.Second, store.Redis, true}, // The others have forgotten the replica by then.
		{length*5/8 + 9*time.Second, store.Redis, false},
		{length*5/8 + 11*time.Second, member(stack.Gateway, 3), false},
	} {
		load.pause(time.Until(begun.Add(d.after)))
		change := h.Kill
		if !d.kill {
			change = func(name string) error { return h.Restart(t.Context(), name) }
		}
		if err := change(d.name); err != nil {
			t.Fatal(err)
		}
	}
	load.pause(time.Until(begun.Add(length)))
	load.stop()
	h.compareWithLimits(t, length)
	load.compareWaits(t)
}

// compareWithLimits compares what the vendor has answered by each credential with its limit, in any minute.
func (h *harness) compareWithLimits(t *testing.T, length time.Duration) {
	t.Helper()
	var report struct {
		Answered []struct {
			Time       time.Time `json:"time"`
			Credential string    `json:"credential"`
			Body       string    `json:"body"`
		} `json:"answered"`
	}
	h.fake(stack.FakeProvider).unrecorded(t, http.MethodGet, "/_answered?limit=100000", nil).into(t, http.StatusOK, &report)
	calls := make(map[string][]time.Time)
	for _, call := range report.Answered {
		if strings.Contains(call.Body, `"model":"limited"`) {
			calls[call.Credential] = append(calls[call.Credential], call.Time)
		}
	}
	byMinute := make(map[int]int)
	for _, call := range report.Answered {
		byMinute[int(call.Time.Sub(report.Answered[0].Time).Minutes())]++
	}
	fits := float64(limitedTPM*len(limitedVendor.pool)) / limitedTokens
	for _, minute := range slices.Sorted(maps.Keys(byMinute)) {
		t.Logf("minute %d: %d calls, %.3f of what fits", minute, byMinute[minute], float64(byMinute[minute])/fits)
	}
	if len(calls) != len(limitedVendor.pool) {
		t.Fatalf("%d credentials were used, want all %d", len(calls), len(limitedVendor.pool))
	}
	total := 0
	for _, credential := range slices.Sorted(maps.Keys(calls)) {
		at := calls[credential]
		total += len(at)
		if most := float64(mostInAMinute(at)*limitedTokens) / limitedTPM; most > 1.1 { // A machine under load delays calls after they were booked.
			t.Errorf("%s: %.3f of its limit within a minute", credential, most)
		} else {
			t.Logf("%s: %.3f of its limit in its worst minute", credential, most)
		}
	}
	allowed := fits * max(1, length.Minutes())
	t.Logf("%d calls, of about %.0f that fit", total, allowed)
	if float64(total) < allowed/2 {
		t.Errorf("only %d calls were made, of about %.0f that fit", total, allowed)
	}
}

// mostInAMinute returns the largest number of calls in any minute.
func mostInAMinute(at []time.Time) (most int) {
	slices.SortFunc(at, time.Time.Compare)
	first := 0
	for i := range at {
		for at[i].Sub(at[first]) >= time.Minute {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// limitedLoad is callers of several organizations that wait for the limited vendor.
type limitedLoad struct {
	*loadGenerator

	mu      sync.Mutex
	waits   map[int][]time.Duration
	refused int
	other   map[string]int
}

func (h *harness) startLimitedLoad(t *testing.T) *limitedLoad {
	t.Helper()
	load := &limitedLoad{loadGenerator: newLoadGenerator(t), waits: make(map[int][]time.Duration), other: make(map[string]int)}
	for organization, callers := range limitedCallers {
		first := h.service(stack.Gateway, unique("org"))
		load.start(callers, func(caller int) {
			to := first
			to.base = h.URL(member(stack.Gateway, 1+(caller+int(time.Now().Unix()))%3))
			a, err := to.try(t, http.MethodPost, chatPath, ask(limitedVendor.named(), "a question", object{"max_tokens": 100, "allow_substitution": false}))
			load.note(organization, a, err)
			if err != nil || a.status != http.StatusOK {
				load.pause(300 * time.Millisecond)
			}
			if organization == 0 {
				load.pause(2 * time.Second)
			}
		})
	}
	return load
}

func (l *limitedLoad) note(organization int, a answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && a.status == http.StatusOK:
		ms, _ := strconv.Atoi(a.header.Get("X-Switchyard-Queue-Ms"))
		l.waits[organization] = append(l.waits[organization], time.Duration(ms)*time.Millisecond)
	case err == nil && a.status == http.StatusTooManyRequests:
		l.refused++
	case err == nil:
		l.other[fmt.Sprint(a.status, " ", shorten(a.body))]++
	}
}

// compareWaits compares how long organizations waited.
func (l *limitedLoad) compareWaits(t *testing.T) {
	t.Helper()
	var means []time.Duration
	for organization := range limitedCallers {
		waits := l.waits[organization]
		slices.Sort(waits)
		if len(waits) == 0 {
			t.Fatalf("organization %d was never served", organization)
		}
		var sum time.Duration
		for _, w := range waits {
			sum += w
		}
		means = append(means, sum/time.Duration(len(waits)))
		t.Logf("organization %d with %d callers: %d served, waited %s in the mean, %s at the median, %s at most", organization, limitedCallers[organization],
			len(waits), means[organization].Round(time.Millisecond), waits[len(waits)/2], waits[len(waits)-1])
	}
	t.Logf("%d refused; others: %v", l.refused, l.other)
	if means[0] > slices.Max(means[1:]) {
		t.Errorf("the organization that asks for little waited %s, the others at most %s", means[0], slices.Max(means[1:]))
	}
	if slices.Max(means) == 0 {
		t.Error("no request waited")
	}
}
