//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/fakes/fault"
)

// soakHostile is the customers whose vendors, receivers and devices behave in every hostile way, chosen at random, and
// who hold every shared place: all the time while members are killed, and then in turns with pauses, so that the effect
// on the other customers can be measured.
type soakHostile struct {
	calling, holding atomic.Bool

	organization string
	ai           client
	webhooks     client
	// notifications opens streams, see startHolders.
	notifications client

	mu         sync.Mutex
	held       map[string]int // how often each place was held
	calls      []*hostileCall
	deliveries []hostileDelivery
	sends      []hostileSend
}

const (
	hostileCallers = 3
	// soakTurn is how long hostile customers call, and then pause, after the last kill. soakLead before each turn is not
	// measured: callers begin, and spend what they may spend in advance.
	soakTurn, soakLead = 4 * time.Second, time.Second
	// soakCompared is the length from which a soak compares latencies. A shorter one has too few phases: a single busy
	// second of the machine decides its percentiles.
	soakCompared = 3 * time.Minute
	// soakCeiling is the amount that they may spend, in cents: more than calls of 64 tokens cost.
	soakCeiling = 500
	// soakRatio is how many times as long others' calls may take beside hostile ones.
	soakRatio = 1.5
)

// soakFloors has the tolerances for a machine that all processes share. Hostile vendors and receivers use its processors,
// too. Holders leave few traces in them, but the 99th percentile of calls of some milliseconds doubles or halves between
// two quiet turns, because a call waits for a processor a slice or two longer.
var soakFloors = map[loadKind]time.Duration{hostileCalls: 100 * time.Millisecond, heldPlaces: 10 * time.Millisecond}

// soakGateway shortens the gateway's timeouts: hostile vendors hold a call for as long as they can.
var soakGateway = []string{
	"GATEWAY_ANSWER_TIMEOUT=5s", "GATEWAY_FIRST_TOKEN_TIMEOUT=5s", "GATEWAY_IDLE_TIMEOUT=5s", "GATEWAY_TOTAL_TIMEOUT=20s",
}

func (s *soak) setUpHostile(t *testing.T) {
	t.Helper()
	organization := unique("hostile")
	s.hostile = &soakHostile{
		organization: organization, ai: s.harness.customer(t, organization, "ai", "read,write"),
		webhooks: s.harness.service(stack.WebhookEgress, organization),
		held:     map[string]int{},
	}
	s.setUpHolders(t)
	s.harness.ceiling(t, organization, soakCeiling)
	s.latencies = newLatencies(postKind, completionKind, imageKind, streamKind, inboxKind, noticeKind)
}

// startHostile starts the hostile customers, which call until the soak ends.
func (s *soak) startHostile(t *testing.T) {
	t.Helper()
	s.hostile.calling.Store(true)
	s.hostile.holding.Store(true)
	s.startHolders(t)
	for n := range hostileCallers {
		random := rand.New(rand.NewPCG(s.seed, uint64(1_000_000+n)))
		s.customers.start(1, func(int) {
			if s.hostile.calling.Load() {
				[]func(*testing.T, *rand.Rand){s.hostileCall, s.hostileCall, s.hostileDelivery, s.hostilePush}[random.IntN(4)](t, random)
			}
			s.customers.pause(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
		})
	}
}

// alternate lets hostile customers rest, hold places, rest and make calls in turns until a moment.
func (s *soak) alternate(t *testing.T, until time.Time) {
	t.Helper()
	turns := []loadKind{noLoad, heldPlaces, noLoad, hostileCalls}
	for n := 0; time.Until(until) > soakLead+soakTurn; n++ {
		others := turns[n%len(turns)]
		s.hostile.holding.Store(others == heldPlaces)
		s.hostile.calling.Store(others == hostileCalls)
		s.latencies.nextPhase(unmeasured)
		rest(t, soakLead)
		s.latencies.nextPhase(others)
		rest(t, soakTurn)
	}
	s.hostile.holding.Store(false)
	s.hostile.calling.Store(false)
	rest(t, time.Until(until))
}

func (s *soak) hostileCall(t *testing.T, random *rand.Rand) {
	t.Helper()
	behaviours := vendorBehaviours()
	b := behaviours[random.IntN(len(behaviours))]
	c := newCall(hostileVendor(hostileDialects[random.IntN(3)], b.Name), random.IntN(2) == 0)
	c.behaviour = b
	c.answer, c.err = s.hostile.ai.with("X-Request-Id", c.id).within(t, chatRoute,
		ask(c.vendor.model, c.mark, object{"max_tokens": hostileTokens, "stream": c.stream}))
	s.hostile.mu.Lock()
	defer s.hostile.mu.Unlock()
	s.hostile.calls = append(s.hostile.calls, c)
}

func anyBehaviour(random *rand.Rand) fault.Behaviour {
	all := fault.Behaviours()
	return all[random.IntN(len(all))]
}

func (s *soak) hostileDelivery(t *testing.T, random *rand.Rand) {
	t.Helper()
	d := hostileDelivery{behaviour: anyBehaviour(random), webhooks: s.hostile.webhooks}
	headers := object{"Authorization": "Bearer " + runSecret + "-of-the-soak", "X-Token-1": "e", "X-Token-2": "d"}
	a, err := d.webhooks.try(t, http.MethodPost, deliveryPath, object{
		"url":        s.harness.FakeURL(stack.FakeHostileWebhook) + "/hostile/" + d.behaviour.Name + "/" + unique("r"),
		"event_type": "order.paid", "payload": object{"order": 7}, "max_attempts": 2, "custom_headers": headers,
	})
	var got accepted
	if err != nil || a.status != http.StatusAccepted || !decoded(a, &got) {
		return // the service was being killed
	}
	d.id = got.ID
	s.hostile.mu.Lock()
	defer s.hostile.mu.Unlock()
	s.hostile.deliveries = append(s.hostile.deliveries, d)
}

func (s *soak) hostilePush(t *testing.T, random *rand.Rand) {
	t.Helper()
	b := anyBehaviour(random)
	a, err := s.harness.fake(stack.FakeHostilePush).try(t, http.MethodPost, "/_subscriptions", object{})
	var device subscriber
	if err != nil || !decoded(a, &device) {
		return
	}
	notify := s.harness.service(stack.Notify, s.hostile.organization)
	a, err = notify.try(t, http.MethodPost, notifyPath, object{
		"channels": []string{"web_push"}, "message": "hello",
		"target": object{"subscription": object{"endpoint": strings.Replace(device.Endpoint, "/push/", "/hostile/"+b.Name+"/push/", 1), "keys": device.Keys}},
	})
	var got struct {
		ID string `json:"notification_id"`
	}
	if err != nil || a.status != http.StatusAccepted || !decoded(a, &got) {
		return // the service was being killed
	}
	s.hostile.mu.Lock()
	defer s.hostile.mu.Unlock()
	s.hostile.sends = append(s.hostile.sends, hostileSend{b, s.hostile.organization, got.ID})
}

// compareHostile compares the calls to hostile third parties with the ledger, the ceiling and the records, and the
// latency of the other customers' calls with its bound.
func (s *soak) compareHostile(t *testing.T, results *resultTable, w *processSampler) {
	t.Helper()
	s.compareHostileCalls(t, results)
	settled, ended := 0, 0
	for _, d := range s.hostile.deliveries {
		var record delivery
		s.drained(t, "delivery "+d.id, func() error {
			d.webhooks.unrecorded(t, http.MethodGet, deliveryPath+"/"+d.id, nil).into(t, http.StatusOK, &record)
			// All deliveries go to one host, whose circuit lets them through one by one. So each must have an outcome for every
			// attempt, or the reason for which it waits.
			if slices.Contains(finals, record.Status) || record.Status == "retrying" && record.Attempts > 0 ||
				record.LastError != nil && *record.LastError == "breaker_open" {
				settled++
				return nil
			}
			return fmt.Errorf("%s: %s after %d attempts", d.behaviour.Name, record.Status, record.Attempts)
		})
	}
	for _, one := range s.hostile.sends {
		s.drained(t, "send "+one.id, func() error {
			var log sendLog
			s.harness.service(stack.Notify, one.organization).unrecorded(t, http.MethodGet, sendsPath+one.id+"?limit=200", nil).into(t, http.StatusOK, &log)
			// The breaker's pauses for the host grow longer and longer. So a send may be pending, but each attempt must have an
			// outcome.
			if log.Status == "pending" && (len(log.Attempts) == 0 || slices.ContainsFunc(log.Attempts, func(a sendAttempt) bool { return a.Outcome == "" })) {
				return errors.New(one.behaviour.Name + ": " + log.summary())
			}
			ended++
			return nil
		})
	}
	results.exactly("deliveries to hostile receivers, settled or held by their circuit", len(s.hostile.deliveries), settled)
	results.exactly("pushes to hostile push services, each attempt with an outcome", len(s.hostile.sends), ended)
	for _, service := range stack.Services {
		results.atMost(fmt.Sprintf("%s: MiB at its peak", service), memoryBound>>20, int(w.peak(string(service))>>20))
	}
	for _, place := range places {
		results.add("times that hostile customers held "+place, "at least 1", s.hostile.held[place], s.hostile.held[place] > 0)
	}
	for _, v := range s.latencies.comparisons() {
		s.compareLatency(results, v)
	}
}

// compareLatency adds a row for one kind of call of the other customers.
func (s *soak) compareLatency(results *resultTable, v comparison) {
	what := fmt.Sprintf("%s: p99 beside %s", v.kind, v.others)
	switch {
	case s.length < soakCompared:
		results.add(what, "shown only, in a soak this short", v, true)
	case !v.measured():
		results.add(what, "enough calls to compare", fmt.Sprint(v.calls, " calls"), false)
	default:
		floor := soakFloors[v.others]
		most := time.Duration(soakRatio*float64(v.quiet)) + floor
		results.add(what, fmt.Sprintf("at most %s (%.1fx and %s)", most.Round(time.Millisecond), soakRatio, floor), v, v.beside <= most)
	}
}

func (s *soak) compareHostileCalls(t *testing.T, results *resultTable) {
	t.Helper()
	served, strays := 0, 0
	var rows map[string][]ledgerRow
	missing := func() (n int) {
		for _, c := range s.hostile.calls {
			if c.served() && len(rows[c.id]) == 0 {
				n++
			}
		}
		return n
	}
	s.drained(t, "the ledger of hostile vendors", func() error {
		if rows = s.harness.ledger(t, s.hostile.organization); missing() > 0 {
			return fmt.Errorf("%d calls have no record", missing())
		}
		return nil
	})
	twice := 0
	for _, c := range s.hostile.calls {
		if c.served() {
			served++
		}
		if len(rows[c.id]) > 1 {
			twice++
		}
		if strings.Contains(string(c.answer.body), fault.Stray) && !c.endsWithConnection(c.behaviour) {
			strays++
			t.Logf("%s of %s got an answer that no request asked for", c.id, c.vendor.model)
		}
	}
	var spend struct {
		Spent float64 `json:"spent_cents"`
	}
	s.harness.operator(stack.Gateway).get(t, "/v1/admin/orgs/"+s.hostile.organization+"/spend").into(t, http.StatusOK, &spend)
	results.exactly(fmt.Sprintf("served by hostile vendors in %d calls, on the ledger", len(s.hostile.calls)), served, served-missing())
	results.exactly("calls to hostile vendors with two records", 0, twice)
	results.exactly("answers of hostile vendors that no request asked for", 0, strays)
	results.add("cents spent with hostile vendors", fmt.Sprintf("0 to %d", soakCeiling), spend.Spent, spend.Spent >= 0 && spend.Spent <= soakCeiling)
}
