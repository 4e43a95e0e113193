package export

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// waysToLose are all ways in which a vendor may lose a request.
var waysToLose = map[string]func(r *http.Request) (*http.Response, error){
	"500":        func(*http.Request) (*http.Response, error) { return respond(500, ""), nil },
	"503, later": func(*http.Request) (*http.Response, error) { return respond(503, "30"), nil },
	"cut":        func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
	"hangs": func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	},
}

func respond(status int, after string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {after}}, Body: http.NoBody}
}

// everyLoss runs a test for each kind of destination and each way to lose a request, in simulated time.
func everyLoss(t *testing.T, name string, do func(t *testing.T, d Destination, l *losing)) {
	t.Helper()
	for _, kind := range Kinds {
		for way, lose := range waysToLose {
			t.Run(fmt.Sprintf("%s, %s, %s", name, kind, way), func(t *testing.T) {
				d := Destination{
					Name: "d", Kind: kind, KeyFile: secret.File(testkit.File(t, "the-key\n")), BaseURL: "http://vendor", StreamURL: "http://vendor",
					Meters: map[string]string{"llm_requests": "calls"},
				}
				synctest.Test(t, func(t *testing.T) { do(t, d, &losing{way: lose, taken: make(map[string]bool)}) })
			})
		}
	}
}

// losing is a vendor's server that loses the requests with certain events, and takes all others.
type losing struct {
	mu    sync.Mutex
	loses func(identifier string) bool
	way   func(r *http.Request) (*http.Response, error)
	posts int
	taken map[string]bool
}

// sentIn returns the identifiers of the events in a body, in JSON or a form.
func sentIn(body string) []string {
	parts := strings.FieldsFunc(strings.ReplaceAll(body, "%2F", "/"), func(r rune) bool { return r == '"' || r == '&' || r == '=' })
	return slices.DeleteFunc(parts, func(s string) bool {
		return !strings.HasPrefix(s, "id-") && !strings.HasSuffix(s, "/llm_requests")
	})
}

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).WroteHeaders()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.URL.Path == sessionPath {
		answer := respond(http.StatusOK, "")
		answer.Body = io.NopCloser(strings.NewReader(aSession("token", 15*time.Minute)))
		return answer, nil
	}
	sent := sentIn(string(body))
	l.mu.Lock()
	l.posts++
	lost := slices.ContainsFunc(sent, l.loses)
	for _, id := range sent {
		l.taken[id] = l.taken[id] || !lost
	}
	l.mu.Unlock()
	if lost {
		return l.way(r)
	}
	return respond(http.StatusOK, ""), nil
}

// Events that a vendor loses alone are found, and all others arrive, however the vendor loses them and wherever they
// are. Stripe gets the events of a customer in turn, so there the customer's later events wait.
func TestEventsLostAlone(t *testing.T) {
	events := many(99)
	for name, isBad := range map[string]func(i int) bool{
		"none":                          func(int) bool { return false },
		"one":                           func(i int) bool { return i == 50 },
		"the first of each customer":    func(i int) bool { return i < 3 },
		"the last":                      func(i int) bool { return i == 98 },
		"every event of two customers":  func(i int) bool { return i%3 != 1 },
		"some at the end of a customer": func(i int) bool { return i > 90 && i%3 == 0 },
	} {
		everyLoss(t, name, func(t *testing.T, d Destination, server *losing) {
			t.Helper()
			bad := make(map[string]bool)
			for i, e := range events {
				if isBad(i) {
					bad[e.Identifier] = true
				}
			}
			server.loses = func(id string) bool { return bad[id] }
			v := newVendor(&http.Client{Transport: server}, d, 0)
			open, failing := events, 0
			for range 5 { // A send may happen to try only events that are lost alone.
				done, err := v.send(t.Context(), open)
				if failing = len(done.failing); (failing > 0) != (err != nil) {
					t.Errorf("%d events fail alone, with the error %v", failing, err)
				}
				for _, e := range done.failing {
					if !bad[e.Identifier] {
						t.Errorf("%s fails alone", e.Identifier)
					}
				}
				open = unsettled(open, identifiers(done.taken))
			}
			waiting := make(map[string]bool) // customers at Stripe
			for _, e := range events {
				waiting[e.Customer] = waiting[e.Customer] || d.Kind == Stripe && bad[e.Identifier]
				want := !bad[e.Identifier] && !waiting[e.Customer]
				if reported := !slices.Contains(open, e); server.taken[e.Identifier] != want || reported != want {
					t.Errorf("%s: taken %t, reported %t; want %t", e.Identifier, server.taken[e.Identifier], reported, want)
				}
			}
			if failing > len(bad) || (failing > 0) != (len(bad) > 0) {
				t.Errorf("%d events fail alone in the end, %d are bad", failing, len(bad))
			}
			if most := 3*len(events) + 4*(1+maxLost); server.posts >= most {
				t.Errorf("%d posts for %d events", server.posts, len(events))
			}
		})
	}
}

// A vendor that is down gets a batch and a few single events, or at Stripe an event of each customer and meter.
func TestVendorThatIsDown(t *testing.T) {
	everyLoss(t, "all", func(t *testing.T, d Destination, server *losing) {
		t.Helper()
		server.loses = func(string) bool { return true }
		done, err := newVendor(&http.Client{Transport: server}, d, 0).send(t.Context(), many(100))
		if err == nil || len(done.taken)+len(done.refused) > 0 || server.posts > 1+maxLost {
			t.Errorf("%+v, %v after %d posts", done, err, server.posts)
		}
	})
}

// A batch whose events are all taken in further tries is no failure.
func TestBatchThatIsLostOnce(t *testing.T) {
	posts := 0
	done, err := sendAll(t.Context(), many(100), func(context.Context, []Event) (verdict, error) {
		if posts++; posts == 1 {
			return verdict{}, &lostError{&laterError{status: 502}}
		}
		return verdict{taken: true}, nil
	})
	if err != nil || len(done.taken) != 100 || len(done.failing) > 0 || posts > 8 {
		t.Errorf("%d taken, %d failing (%v) in %d posts", len(done.taken), len(done.failing), err, posts)
	}
}

// runFor runs a worker for a time.
func runFor(t *testing.T, life time.Duration, store Store, counts Pager, d Destination, server http.RoundTripper) {
	t.Helper()
	w := NewWorker(Options{
		Settings: Settings{Every: time.Minute, Lease: 30 * time.Second, Destinations: []Destination{d}},
		Store:    store, Pagers: map[Source]Pager{Counts: counts},
		Client: &http.Client{Transport: server}, Holder: "me", Recorder: noRecorder{}, Log: testkit.Logger(t),
	})
	ctx, stop := context.WithTimeout(t.Context(), life)
	defer stop()
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// If a send ends for a reason that says nothing of the events, none of them fails alone.
func TestFailuresOfOtherKinds(t *testing.T) {
	for name, end := range map[string]func(stop func()) error{
		"too many": func(func()) error { return &laterError{status: 429} },
		"ended":    func(stop func()) error { stop(); return &lostError{context.Canceled} },
	} {
		ctx, stop := context.WithCancel(t.Context())
		posts := 0
		done, err := sendAll(ctx, many(100), func(context.Context, []Event) (verdict, error) {
			if posts++; posts < 3 {
				return verdict{}, &lostError{&laterError{status: 500}}
			}
			return verdict{}, end(stop)
		})
		if err == nil || len(done.failing) > 0 || posts != 3 {
			t.Errorf("%s: %d events fail alone (%v) after %d posts, want none after 3", name, len(done.failing), err, posts)
		}
		stop()
	}
}

// A worker sets aside exactly the events that its destination loses alone, and gets on with all others. An outage sets
// nothing aside, however long it is. Restarts change none of this.
func TestWorkerGetsPastEventsLostAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		bad    func(i int) bool
		outage time.Duration
		within time.Duration // by when all is sent
		life   time.Duration // of a process; 0 if it doesn't end before
	}{
		"one event":                {func(i int) bool { return i == 49 }, 0, 90 * time.Minute, 0},
		"two events of a customer": {func(i int) bool { return i == 40 || i == 45 }, 0, 90 * time.Minute, 0},
		"one of each page":         {func(i int) bool { return i%100 == 7 }, 0, 4 * time.Hour, 0},
		"a customer":               {func(i int) bool { return i%5 == 2 && i < 100 }, 0, 2 * time.Hour, 0},
		"all of a page":            {func(i int) bool { return i >= 100 && i < 200 }, 0, 2 * time.Hour, 0},
		"all of a page, restarts":  {func(i int) bool { return i >= 100 && i < 200 }, 0, 2 * time.Hour, 25 * time.Minute},
		"an outage":                {func(int) bool { return false }, 3 * time.Hour, 4 * time.Hour, 0},
		"an outage and one event":  {func(i int) bool { return i == 49 }, 3 * time.Hour, 5 * time.Hour, 0},
		"an outage, restarts":      {func(int) bool { return false }, 3 * time.Hour, 4 * time.Hour, 25 * time.Minute},
	} {
		everyLoss(t, name, func(t *testing.T, d Destination, server *losing) {
			t.Helper()
			store, begun := &memory{fence: 1}, time.Now()
			var events []Event
			bad := make(map[string]bool)
			store.fill(300)
			for i := range store.growths {
				store.growths[i].Organization = fmt.Sprintf("org-%d", i%5)
				events = append(events, d.Events(Counts, store.growths[i].Entry())...)
				bad[events[i].Identifier] = tt.bad(i)
			}
			server.loses = func(id string) bool { return bad[id] || time.Since(begun) < tt.outage }
			for left := tt.within; left > 0; left = tt.within - time.Since(begun) {
				runFor(t, min(left, cmp.Or(tt.life, left)), store, NewCountFeed(store), d, server)
			}
			if c := store.cursor; c.Position != "300" {
				t.Errorf("after %v it is at %q with %q since %v", tt.within, c.Position, c.Failure, c.FailingSince.Sub(begun))
			}
			aside := make(map[string]bool)
			for _, r := range store.refused {
				aside[r.Identifier] = strings.HasPrefix(r.Reason, "uncertain: failed alone")
			}
			for i, e := range events {
				if id := e.Identifier; server.taken[id] == bad[id] || aside[id] != bad[id] {
					t.Errorf("event %d: taken %t, set aside %t; bad %t", i, server.taken[id], aside[id], bad[id])
				}
			}
		})
	}
}
