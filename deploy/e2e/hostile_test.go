//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// hostileAtOnce is the environment variable that sets how many behaviours are tried at a time: with 1, a failure names
// the behaviour that caused it.
const hostileAtOnce = "HOSTILE_AT_ONCE"

// hostileTraffic is a run with hostile traffic of some organizations beside ordinary traffic of others.
type hostileTraffic struct {
	*harness

	monitor   *processMonitor
	latencies *latencies
	atOnce    int
}

const (
	// quietPhase is how long a phase without hostile traffic lasts, between two with it.
	quietPhase = 1200 * time.Millisecond
	// hostileTimeout bounds a call of any kind: a caller whose request goes wrong gets an answer too.
	hostileTimeout = 20 * time.Second
	// hostileAnswer bounds the part of an answer that a caller reads, in bytes.
	hostileAnswer = 64 << 20

	// The bounds for the 99th percentile of the others' calls: at most latencyRatio times as long, and latencyFloor more.
	// The processors are shared with the fakes, the stores, this test and whatever else runs on the machine, so these
	// bounds only find calls that stop for seconds. The soak compares closely.
	latencyRatio = 1.5
	latencyFloor = 2 * time.Second
)

// Third parties and callers of some organizations do everything wrong that the fakes can, while others make ordinary
// calls: no process ends or grows beyond its bound, all ordinary calls are answered, each caller gets its own answer,
// and every ledger and record is right. The search for secrets at the end of the run covers this stack as every other.
func TestHostile(t *testing.T) {
	if err := os.MkdirAll(hostileSecrets, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(hostileSecrets)
	h := hostileStack.get(t)
	ht := &hostileTraffic{harness: h, monitor: h.monitorProcesses(t), latencies: newLatencies(completionKind, streamKind, deliveryKind, notificationKind), atOnce: 4}
	if n, err := strconv.Atoi(os.Getenv(hostileAtOnce)); err == nil && n > 0 {
		ht.atOnce = n
	}
	quiet := ht.startQuiet(t)
	vendorsOf := ht.vendorGroups(t)
	phases := []struct {
		name   string
		groups map[string]func(*testing.T) // at once
	}{
		{"nested and endless", map[string]func(*testing.T){"vendors": vendorsOf[0]}},
		{"hosts", map[string]func(*testing.T){"receivers": ht.receivers, "push services": ht.pushServices, "Slack": ht.slack, "direct webhooks": ht.directWebhooks}},
		{"lengths and refusals", map[string]func(*testing.T){"vendors": vendorsOf[1]}},
		{"repeats and garbage", map[string]func(*testing.T){"vendors": vendorsOf[2]}},
		{"callers", map[string]func(*testing.T){"requests": ht.callers, "slow": ht.slowCallers, "gRPC": ht.grpcCallers}},
		{"usage and forms", map[string]func(*testing.T){"vendors": vendorsOf[3]}},
	}
	for _, p := range phases {
		ht.latencies.nextPhase(noLoad)
		rest(t, quietPhase)
		ht.latencies.nextPhase(hostileCalls)
		begun := time.Now()
		t.Run(p.name, func(t *testing.T) {
			eachAtOnce(slices.Sorted(maps.Keys(p.groups)), len(p.groups), func(name string) { t.Run(name, p.groups[name]) })
		})
		ht.monitor.check(t, p.name)
		t.Logf("phase %d, %s: %s", ht.latencies.currentPhase(), p.name, time.Since(begun).Round(time.Millisecond))
	}
	ht.latencies.nextPhase(noLoad)
	rest(t, quietPhase)
	quiet.stop()
	ht.latencies.check(t, latencyRatio, latencyFloor)
	ht.noTokens(t)
}

// within makes a call, which must end within hostileTimeout, and records its answer.
func (c client) within(t *testing.T, path string, body any) (answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hostileTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, reader(t, body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = c.header.Clone()
	r.Header.Set("Content-Type", "application/json")
	response, err := httpClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, hostileAnswer))
	a := answer{"POST " + path, response.StatusCode, response.Header, text}
	responses.add(a)
	return a, err
}

// tokens matches the tokens that a push service gets: signed, and valid for hours.
var tokens = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{16,}\.eyJ[A-Za-z0-9_-]{16,}`)

// noTokens fails the test for each row, key or log that holds a token for a push service.
func (ht *hostileTraffic) noTokens(t *testing.T) {
	t.Helper()
	look := func(place, text string) {
		if tokens.MatchString(text) {
			t.Errorf("%s holds a token for a push service", place)
		}
	}
	if err := ht.eachRow(t.Context(), look); err != nil {
		t.Error(err)
	}
	if err := ht.eachKey(t.Context(), look); err != nil {
		t.Error(err)
	}
	logs, err := filepath.Glob(filepath.Join(ht.logs(), "*.log"))
	if err != nil || len(logs) == 0 {
		t.Errorf("no logs: %v", err)
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Error(err)
		}
		look(filepath.Base(log), string(text))
	}
}

// quietCustomers is the number of ordinary customers: one organization each, which uses everything.
const quietCustomers = 2

var quietVendors = []vendor{
	{name: "quiet-openai", dialect: "openai", model: "quiet-openai"},
	{name: "quiet-anthropic", dialect: "anthropic", model: "quiet-anthropic"},
	{name: "quiet-gemini", dialect: "gemini", model: "quiet-gemini"},
}

// startQuiet starts the ordinary customers, which call until they are stopped.
func (ht *hostileTraffic) startQuiet(t *testing.T) *loadGenerator {
	t.Helper()
	quiet := newLoadGenerator(t)
	for range quietCustomers {
		organization := unique("quiet")
		ai, webhooks := ht.customer(t, organization, "ai", "read"), ht.customer(t, organization, "webhooks", "write")
		notifications := ht.customer(t, organization, "notifications", "write")
		to, device := ht.receiver(), ht.browser(t, organization)
		ht.register(t, organization, device, object{"user_id": "ann"})
		for i, v := range quietVendors {
			quiet.start(1, func(int) { ht.quietChat(t, quiet, ai, v, i%2 == 0) })
		}
		quiet.start(1, func(int) { ht.quietChat(t, quiet, ai, quietVendors[0], true) })
		quiet.start(1, func(int) {
			ht.quietPost(t, quiet, deliveryKind, webhooks, deliveryRoute, to.deliver(), http.StatusAccepted)
		})
		quiet.start(1, func(int) {
			ht.quietPost(t, quiet, notificationKind, notifications, sendRoute, object{
				"channels": []string{"in_app", "web_push"}, "message": "hello", "target": object{"user_id": "ann"},
			}, http.StatusAccepted)
		})
	}
	return quiet
}

const quietPause = 15 * time.Millisecond

func (ht *hostileTraffic) quietChat(t *testing.T, quiet *loadGenerator, ai client, v vendor, stream bool) {
	t.Helper()
	kind := completionKind
	if stream {
		kind = streamKind
	}
	mark := unique("mark")
	a, ok := ht.quietPost(t, quiet, kind, ai, chatRoute, ask(v.model, mark, object{"stream": stream}), http.StatusOK)
	if ok && (!regexp.MustCompile(mark).Match(a.body) || stream && !wholeStream(a.body)) {
		ht.latencies.recordFailure(kind, ht.latencies.currentPhase(), "not the answer to what was asked: "+shorten(a.body))
	}
}

// quietPost makes a call that must be answered with status, and records how long it took.
func (ht *hostileTraffic) quietPost(t *testing.T, quiet *loadGenerator, kind string, c client, path string, body object, status int) (answer, bool) {
	t.Helper()
	phase, begun := ht.latencies.currentPhase(), time.Now()
	a, err := c.within(t, path, body)
	ok := err == nil && a.status == status
	if ok {
		ht.latencies.record(kind, phase, time.Since(begun))
	} else {
		ht.latencies.recordFailure(kind, phase, fmt.Sprintf("answered %d %s, %v", a.status, shorten(a.body), err))
	}
	quiet.pause(quietPause)
	return a, ok
}

// eachAtOnce runs a function for each item, atOnce of them at a time.
func eachAtOnce[T any](items []T, atOnce int, run func(T)) {
	next := make(chan T)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for item := range next {
				run(item)
			}
		})
	}
	for item := range slices.Values(items) {
		next <- item
	}
	close(next)
	workers.Wait()
}

// ceiling sets the amount that an organization may spend a day, in cents.
func (h *harness) ceiling(t *testing.T, organization string, cents float64) {
	t.Helper()
	h.operator(stack.Gateway).do(t, http.MethodPut, "/v1/admin/orgs/"+organization+"/budget",
		object{"budget_ceiling_cents": cents, "period": "day"}).want(t, http.StatusOK)
}
