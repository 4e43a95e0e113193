package dispatch_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// badPaths returns a host that handles paths that contain "bad" by fail, or with 500 if fail is nil. Other paths get
// 200.
func badPaths(t *testing.T, fail http.HandlerFunc) *receiver {
	t.Helper()
	return newReceiver(t, func(w http.ResponseWriter, q *http.Request) {
		if !strings.Contains(q.URL.Path, "bad") {
			return
		}
		if fail != nil {
			fail(w, q)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	})
}

// arrived counts the requests for a path.
func (r *receiver) arrived(path string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.requests {
		if q.URL.Path == path {
			n++
		}
	}
	return n
}

func to(r *receiver, path string) delivery.Request {
	q := request(r)
	q.URL = r.URL + path
	return q
}

// failures are the ways in which a path can fail.
var failures = map[string]http.HandlerFunc{
	"answer 500": nil,
	"answer 429, later please": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	},
	"break the connection": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
}

// Paths that fail pause only their own deliveries. Deliveries to other paths of the host arrive, even if they are
// accepted while the circuits of the failing paths are open.
func TestFailingPathsDontStopOthers(t *testing.T) {
	t.Parallel()
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := badPaths(t, fail)
			w := newWorld(t, r)
			w.breaker.Failures, w.breaker.Pause, w.breaker.MaxPause = 3, time.Hour, time.Hour
			n := w.start()
			w.untilStatus(w.enqueue(n, to(r, "/good/1")), delivery.StatusDelivered)
			for _, bad := range []string{"/bad/1", "/bad/2", "/bad/3"} {
				var failing []delivery.ID
				for range 4 {
					failing = append(failing, w.enqueue(n, to(r, bad)))
				}
				until(t, bad+" waits", func() bool {
					for _, id := range failing {
						if w.get(id).LastError != "breaker_open" {
							return false
						}
					}
					return true
				})
			}
			for range 20 {
				for _, good := range []string{"/good/1", "/good/2"} {
					w.untilStatus(w.enqueue(n, to(r, good)), delivery.StatusDelivered)
				}
			}
			for _, bad := range []string{"/bad/1", "/bad/2", "/bad/3"} {
				if n := r.arrived(bad); n > 8 {
					t.Errorf("%d requests for %s, whose circuit is open", n, bad)
				}
			}
		})
	}
}

// shared lists the kinds of flows that paths share.
var shared = map[string]struct {
	crowded bool // The organization has no flow left for further paths.
	key     string
}{"ordering keys": {false, "key"}, "many paths": {true, ""}, "both": {true, "key"}}

// sharedFlow starts a replica for deliveries to bad and good, which are paths of one flow. fail handles bad.
func sharedFlow(t *testing.T, kind string, policy breaker.Policy, fail http.HandlerFunc) (
	w *world, r *receiver, send func(path, key string) delivery.ID, bad, good string,
) {
	t.Helper()
	r = badPaths(t, fail)
	w = newWorld(t, r)
	w.breaker = policy
	if shared[kind].crowded {
		w.exec(`INSERT INTO flow (organization_id, scheme, host, port, endpoint_id, of_path)
			SELECT 'acme', 'https', 'example.com', 443, gen_random_uuid(), true FROM generate_series(1, 1000)`)
	}
	n := w.start()
	return w, r, func(path, key string) delivery.ID {
		q := to(r, path)
		q.OrderingKey, q.MaxAttempts = shared[kind].key, new(20)
		if q.OrderingKey != "" {
			q.OrderingKey += key
		}
		return w.enqueue(n, q)
	}, "/bad", sharingPath(t, r.URL, "/bad")
}

// Deliveries of a flow that paths share don't stop each other, whichever of its paths fails, and in which way.
func TestFailingPathOfASharedFlow(t *testing.T) {
	t.Parallel()
	for kind := range shared {
		for name, fail := range failures {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				policy := breaker.DefaultPolicy()
				policy.Failures, policy.Pause, policy.MaxPause = 3, time.Hour, time.Hour
				w, r, send, bad, good := sharedFlow(t, kind, policy, fail)
				w.untilStatus(send(good, "good"), delivery.StatusDelivered)
				for i := range 7 {
					send(bad, fmt.Sprint(i))
				}
				until(t, "more attempts fail than open a circuit", func() bool { return r.arrived(bad) > 6 })
				for range 5 {
					w.untilStatus(send(good, "good"), delivery.StatusDelivered)
				}
				if n := w.count("SELECT count(*) FROM flow JOIN delivery_queue USING (flow_id) WHERE parked_reason IS NOT NULL"); n != 0 {
					t.Errorf("%d deliveries wait for a circuit", n)
				}
			})
		}
	}
}

// The paths of a shared flow take turns to probe their host. So a path that hangs up can't keep the host's circuit open,
// even if many of its deliveries have waited longer, and if no other path got an answer within the window.
func TestPathsOfASharedFlowTakeTurns(t *testing.T) {
	t.Parallel()
	for kind := range shared {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			policy := breaker.DefaultPolicy()
			policy.Failures, policy.Pause, policy.MaxPause, policy.Window = 3, 200*time.Millisecond, 200*time.Millisecond, time.Millisecond
			w, r, send, bad, good := sharedFlow(t, kind, policy, failures["break the connection"])
			for i := range 20 {
				send(bad, fmt.Sprint(i))
			}
			until(t, "the host's circuit opens", func() bool {
				return w.count("SELECT count(*) FROM flow WHERE parked_reason = 'breaker_open' AND parked_by_host") > 0
			})
			before := r.count()
			w.untilStatus(send(good, "good"), delivery.StatusDelivered)
			r.mu.Lock()
			defer r.mu.Unlock()
			probes := slices.IndexFunc(r.requests[before:], func(q *http.Request) bool { return q.URL.Path == good })
			if probes > 4 {
				t.Errorf("%d probes went to the failing path first", probes)
			}
		})
	}
}

// sharingPath returns another path that has the same flow as path, if the paths of their host share flows.
func sharingPath(t *testing.T, base, path string) string {
	t.Helper()
	shard := func(path string) byte {
		u, err := url.Parse(base + path)
		if err != nil {
			t.Fatal(err)
		}
		return delivery.TargetOf("acme", u).Path[0] % 64
	}
	for i := 0; ; i++ {
		if other := fmt.Sprint("/good/", i); shard(other) == shard(path) {
			return other
		}
	}
}

// While a host gives no answer, all its flows are parked, and waiting deliveries use up no attempt. One answer to the
// flow that has its turn releases all flows, even while a path still hangs up.
func TestHostThatGivesNoAnswer(t *testing.T) {
	t.Parallel()
	var mended atomic.Bool
	r := newReceiver(t, func(_ http.ResponseWriter, q *http.Request) {
		if !mended.Load() || strings.Contains(q.URL.Path, "bad") {
			panic(http.ErrAbortHandler)
		}
	})
	w := newWorld(t, r)
	w.breaker.Failures, w.breaker.Pause, w.breaker.MaxPause = 3, 300*time.Millisecond, time.Second
	n := w.start()
	paths := []string{"/bad", "/1", "/2", "/3"}
	var good []delivery.ID
	for _, path := range paths {
		for range 10 {
			q := to(r, path)
			q.MaxAttempts = new(20)
			if id := w.enqueue(n, q); path != "/bad" {
				good = append(good, id)
			}
		}
	}
	until(t, "all flows wait for the host", func() bool {
		return w.count("SELECT count(*) FROM flow WHERE parked_reason = 'breaker_open' AND parked_by_host") == len(paths)
	})
	before := r.count()
	until(t, "it is tried three times", func() bool { return r.count() >= before+3 })
	if n := r.count() - before; n > 5 {
		t.Errorf("%d requests, want one after each pause", n)
	}
	tried := 0
	for _, path := range paths {
		if r.arrived(path) > 0 {
			tried++
		}
	}
	if tried < 3 {
		t.Errorf("%d of %d flows were tried: they don't take turns", tried, len(paths))
	}
	mended.Store(true)
	for _, id := range good {
		w.untilStatus(id, delivery.StatusDelivered)
	}
}
