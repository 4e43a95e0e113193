//go:build e2e

package e2e_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// The soak: customers use everything at once while services are killed, Postgres is restarted and Redis loses its data;
// then follows a time without kills, and at last a comparison of what became of each call. `make soak` gives it ten
// minutes. soak_traffic_test.go has the customers, soak_kills_test.go the kills, soak_processes_test.go the resources
// of the processes, soak_hostile_test.go the customers of hostile third parties, soak_places_test.go the organization that holds
// what all share and the customers who need it, soak_results_test.go and soak_arrivals_test.go the comparison.

// Environment variables of a soak.
const (
	soakFor  = "SOAK_FOR"  // how long customers call; members are killed in the first two thirds of it
	soakSeed = "SOAK_SEED" // the seed of an earlier run, whose random choices it repeats
)

const (
	soakShort = 45 * time.Second
	// soakTimeout is how long a customer tries to get an answer, and the time in which everything accepted must end after
	// the last kill.
	soakTimeout = 2 * time.Minute
	soakUsers   = 10
)

// The vendors of the soak: two dialects with the fleet's keys, and one that only an organization's own key can use.
var (
	soakOpenAI    = addVendor(vendor{name: "soak-openai", dialect: "openai", model: "soak-openai"})
	soakAnthropic = addVendor(vendor{name: "soak-anthropic", dialect: "anthropic", model: "soak-anthropic"})
	soakUnsighted = addVendor(vendor{name: "soak-unsighted", dialect: "openai", model: "soak-unsighted", noImageURLs: true})
	soakOwn       = addVendor(vendor{name: "soak-own", dialect: "openai", model: "soak-own", keyless: true})
)

// soak is one run of the soak.
type soak struct {
	harness      *harness
	organization string
	seed         uint64
	customers    *loadGenerator

	ai, webhooks, notifications client // at the edge
	egress, inbox               client // first-party faces, for operations that the edge doesn't offer
	direct, fanOut, notified    receiver
	hook                        string    // the beginning of the path of every Slack URL
	deadline                    time.Time // when everything accepted must have ended

	number atomic.Int64      // of calls, keys and sends
	billed map[string]*tally // by the edge's metric

	length    time.Duration // how long customers call
	hostile   *soakHostile
	latencies *latencies // of the calls of the other customers

	mu          sync.Mutex
	calls       map[string]completionCall // completions, by request id
	deliveries  map[string]bool           // accepted deliveries, by id
	sends       map[string]send           // by id
	read        map[string]bool           // records that were marked read, by id
	gaveUp      int                       // calls that a customer gave up
	firstReason error                     // the error of the first one
}

// tally counts the calls of one metric by what their customers know.
type tally struct {
	succeeded atomic.Int64 // whole answers with 2xx
	unknown   atomic.Int64 // answers that broke off or never came
}

func TestSoak(t *testing.T) {
	length, seed := soakSettings(t)
	t.Logf("%s with %s=%d", length, soakSeed, seed)
	s := newSoak(t, seed)
	s.length = length
	begun := time.Now()
	w := s.harness.sampleProcesses(t)
	s.begin(t)
	s.startHostile(t)
	kills := planKills(rand.New(rand.NewPCG(seed, 0)), length*2/3)
	s.runKills(t, begun, kills)
	s.alternate(t, begun.Add(length))
	s.customers.stop()
	w.stop()
	results := s.compare(t, kills, w)
	fmt.Println(results)
	for _, line := range results.lines {
		if !line.holds {
			t.Errorf("%s: found %s, expected %s", line.what, line.found, line.expected)
		}
	}
}

func soakSettings(t *testing.T) (length time.Duration, seed uint64) {
	t.Helper()
	length, err := time.ParseDuration(cmp.Or(os.Getenv(soakFor), soakShort.String()))
	if err != nil {
		t.Fatalf("%s: %v", soakFor, err)
	}
	seed = rand.Uint64()
	if text := os.Getenv(soakSeed); text != "" {
		var bad error
		seed, bad = strconv.ParseUint(text, 10, 64)
		err = errors.Join(err, bad)
	}
	if err != nil {
		t.Fatalf("%s: %v", soakSeed, err)
	}
	return length, seed
}

// newSoak starts a stack with every channel and the hostile third parties, and creates the customers.
func newSoak(t *testing.T, seed uint64) *soak {
	t.Helper()
	h := plan{
		name: "soak", vendors: hostileVendors(),
		fakes: []stack.Fake{
			stack.FakeSlack, stack.FakePush, stack.FakeSMTP, stack.FakeMailbox,
			stack.FakeHostileProvider, stack.FakeHostileWebhook, stack.FakeHostilePush, stack.FakeTools, stack.FakeTarpit,
		},
		settings: settings{
			stack.Gateway:       soakGateway,
			stack.WebhookEgress: {"WEBHOOK_EGRESS_REQUEST_TIMEOUT=2s", "WEBHOOK_EGRESS_LEASE=7s", fmt.Sprint("WEBHOOK_EGRESS_MAX_IN_FLIGHT=", chaosInFlight)},
			stack.Notify: {
				"NOTIFY_WEB_PUSH_ENABLED=true", "NOTIFY_RETRY_SCHEDULE=100ms,200ms,400ms,1s", "NOTIFY_REQUEST_TIMEOUT=2s", "NOTIFY_LEASE=7s",
				"NOTIFY_BREAKER_PAUSE=100ms", "NOTIFY_BREAKER_MAX_PAUSE=300ms",
			},
		},
	}.start(t)
	organization := unique("org")
	s := &soak{
		harness: h, organization: organization, seed: seed, customers: newLoadGenerator(t),
		ai: h.customer(t, organization, "ai", "read,write"), webhooks: h.customer(t, organization, "webhooks", "write"),
		notifications: h.customer(t, organization, "notifications", "read,write"),
		egress:        h.service(stack.WebhookEgress, organization), inbox: h.service(stack.Notify, organization),
		direct: h.receiver(), fanOut: h.receiver(), notified: h.receiver(), hook: "/services/T1/B1/" + strings.ReplaceAll(unique("canaryhook"), "-", ""),
		billed: map[string]*tally{"llm_requests": {}, "deliveries": {}, "notifications_sent": {}, "": {}},
		calls:  map[string]completionCall{}, deliveries: map[string]bool{}, sends: map[string]send{}, read: map[string]bool{},
	}
	h.service(stack.Gateway, organization).post(t, byokPath, h.sealKey(t, organization, soakOwn.name, newKey("soak"))).want(t, http.StatusCreated)
	s.egress.do(t, http.MethodPut, "/v1/event-types/order.paid", object{"schema": object{"properties": object{
		"order": object{"type": "integer"},
	}}}).want(t, http.StatusCreated)
	s.setUpHostile(t)
	knownSecrets.add("a Slack URL", s.hook)
	// Calls and deliveries take 20 ms or more, so that some are in flight at each kill.
	h.script(t, stack.FakeProvider,
		rule{Match: object{"body": `"stream":true`}, Action: object{"slow_body_ms": 5}},
		rule{Action: object{"delay_ms": 20}})
	for _, to := range []receiver{s.direct, s.fanOut, s.notified} {
		to.answers(t, object{"delay_ms": 20})
	}
	for _, types := range [][]string{{"*"}, {"order.*"}, {"order.paid"}} {
		s.fanOut.subscribe(t, s.egress, types)
	}
	for n := range soakUsers {
		h.register(t, organization, h.browser(t, organization), object{"user_id": soakUser(n)})
	}
	return s
}

func soakUser(n int) string { return fmt.Sprint("user-", n) }

// rest waits for d, or until the test ends.
func rest(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
