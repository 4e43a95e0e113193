package export

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/platform/testkit/growth"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		testkit.WriteFile(t, file, got)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func sampleEvents() []Event {
	return []Event{
		{Identifier: "id-1/llm_requests", Source: Counts, Organization: "acme", Metric: "llm_requests", Customer: "cus_1", Name: "calls & more", Amount: "12", At: hour},
		{Identifier: "id-2/ledger.calls", Source: Ledger, Organization: "acme", Metric: "ledger.calls", Customer: "cus_1", Name: "llm", Amount: "1", At: hour.Add(time.Second)},
	}
}

// system is a vendor's API under test: it records requests and answers by a function.
type system struct {
	mu       sync.Mutex
	requests []string // with their bodies
	sessions int
	url      string
}

func newSystem(t *testing.T, answer func(w http.ResponseWriter, path, body string)) *system {
	t.Helper()
	s := &system{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		text := fmt.Sprintf("%s %s\nAuthorization: %s\nContent-Type: %s\nIdempotency-Key: %s\n",
			r.Method, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), r.Header.Get("Idempotency-Key"))
		if version := r.Header.Get("Stripe-Version"); version != "" {
			text += "Stripe-Version: " + version + "\n"
		}
		s.requests = append(s.requests, fmt.Sprintf("%s\n%s\n", text, body))
		if r.URL.Path == sessionPath {
			s.sessions++
			_, _ = io.WriteString(w, aSession(fmt.Sprint("token-", s.sessions), 15*time.Minute))
			return
		}
		answer(w, r.URL.Path, string(body))
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// aSession is the answer to a request for a session of Stripe's stream.
func aSession(token string, left time.Duration) string {
	return fmt.Sprintf(`{"object":"v2.billing.meter_event_session","authentication_token":%q,"expires_at":%q}`, token, time.Now().Add(left).UTC().Format(time.RFC3339))
}

func (s *system) vendor(t *testing.T, kind Kind) vendor {
	t.Helper()
	return newVendor(http.DefaultClient, Destination{Kind: kind, BaseURL: s.url, StreamURL: s.url, KeyFile: secret.File(testkit.File(t, "the-key\n"))}, 0)
}

var tryKey = regexp.MustCompile(`Idempotency-Key: [A-Z2-7]{26}`)

// Requests are as the vendors document them.
func TestWireFormats(t *testing.T) {
	for _, kind := range Kinds {
		t.Run(string(kind), func(t *testing.T) {
			s := newSystem(t, func(w http.ResponseWriter, _, _ string) { w.WriteHeader(http.StatusOK) })
			done, err := s.vendor(t, kind).send(t.Context(), sampleEvents())
			if err != nil || len(done.refused) > 0 || len(done.taken) != 2 {
				t.Fatalf("error %v, %+v", err, done)
			}
			for i, text := range s.requests {
				s.requests[i] = tryKey.ReplaceAllString(text, "Idempotency-Key: (new each time)")
			}
			slices.Sort(s.requests)
			golden(t, string(kind)+".txt", strings.Join(s.requests, "\n"))
		})
	}
}

func many(n int) (events []Event) {
	for i := range n {
		events = append(events, Event{Identifier: fmt.Sprintf("id-%03d", i), Customer: fmt.Sprint("c", i%3), Name: "m", Amount: "1", At: hour})
	}
	return events
}

func reasons(refused []Refusal) (ids []string) {
	for _, r := range refused {
		ids = append(ids, r.Identifier+": "+r.Reason)
	}
	slices.Sort(ids)
	return ids
}

// Events that a vendor refuses are set aside, what it has is taken, and all others arrive, each in one accepted request.
func TestRefusals(t *testing.T) {
	for kind, answer := range map[Kind]func(w http.ResponseWriter, body string){
		Stripe: func(w http.ResponseWriter, body string) {
			switch {
			case strings.Contains(body, "id-004"):
				http.Error(w, `{"error":{"message":"No such customer"}}`, http.StatusBadRequest)
			case strings.Contains(body, "id-005"):
				http.Error(w, `{"error":{"message":"An event already exists with identifier id-005."}}`, http.StatusBadRequest)
			}
		},
		StripeStream: func(w http.ResponseWriter, body string) {
			if strings.Contains(body, "id-004") {
				http.Error(w, `{"error":{"message":"No such customer"}}`, http.StatusBadRequest)
			}
		},
		OpenMeter: func(w http.ResponseWriter, body string) {
			if strings.Contains(body, "id-004") {
				http.Error(w, `{"title":"Bad Request","detail":"No such customer"}`, http.StatusBadRequest)
			}
		},
		Lago: func(w http.ResponseWriter, body string) {
			var batch struct {
				Events []struct {
					ID string `json:"transaction_id"`
				}
			}
			_ = json.Unmarshal([]byte(body), &batch)
			faults := map[string]any{}
			for i, e := range batch.Events {
				switch e.ID {
				case "id-004":
					faults[fmt.Sprint(i)] = map[string][]string{"external_subscription_id": {"No such customer"}}
				case "id-005":
					faults[fmt.Sprint(i)] = map[string][]string{"transaction_id": {"value_already_exist"}}
				}
			}
			if len(faults) > 0 {
				w.WriteHeader(http.StatusUnprocessableEntity)
				_ = json.NewEncoder(w).Encode(map[string]any{"code": "validation_errors", "error_details": faults})
			}
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			taken := make(map[string]int)
			s := newSystem(t, func(w http.ResponseWriter, _, body string) {
				recorder := httptest.NewRecorder()
				answer(recorder, body)
				w.WriteHeader(recorder.Code)
				_, _ = w.Write(recorder.Body.Bytes())
				for _, e := range many(20) {
					if recorder.Code == http.StatusOK && strings.Contains(body, e.Identifier) {
						taken[e.Identifier]++
					}
				}
			})
			done, err := s.vendor(t, kind).send(t.Context(), many(20))
			if err != nil || len(done.taken) != 19 {
				t.Fatalf("error %v, %d taken", err, len(done.taken))
			}
			if got := reasons(done.refused); len(got) != 1 || !strings.HasPrefix(got[0], "id-004: ") || !strings.Contains(got[0], "No such customer") {
				t.Errorf("refused %q, want only id-004 with the vendor's reason", got)
			}
			for _, e := range many(20) {
				want := 1
				if e.Identifier == "id-004" || e.Identifier == "id-005" && (kind == Stripe || kind == Lago) {
					want = 0
				}
				if taken[e.Identifier] != want {
					t.Errorf("%s was taken %d times, want %d", e.Identifier, taken[e.Identifier], want)
				}
			}
		})
	}
}

// What says nothing of the events is an error, and the vendor's wait is kept.
func TestFailuresAreNoRefusals(t *testing.T) {
	for _, kind := range Kinds {
		for _, status := range []int{301, 401, 403, 404, 409, 429, 500, 503} {
			s := newSystem(t, func(w http.ResponseWriter, _, _ string) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(status)
			})
			done, err := s.vendor(t, kind).send(t.Context(), many(3))
			if err == nil || len(done.refused)+len(done.taken) > 0 {
				t.Errorf("%s, status %d: error %v, %+v; want an error alone", kind, status, err, done)
				continue
			}
			if _, lost := errors.AsType[*lostError](err); lost != (status >= 500) {
				t.Errorf("%s, status %d: lost %t: the vendor may have the events after its own failures alone", kind, status, lost)
			}
			if got := after(err, time.Second); got != 7*time.Second {
				t.Errorf("%s, status %d: wait of %v, want the 7 s that the vendor asks for", kind, status, got)
			}
			if strings.Contains(err.Error(), "the-key") {
				t.Errorf("%s: the error repeats the key: %v", kind, err)
			}
		}
	}
}

// After several answers, the sender waits as long as the longest of them asks for, in whichever order they came.
func TestWaitAfterSeveralAnswers(t *testing.T) {
	asks := func(seconds time.Duration) error {
		return &lostError{&laterError{status: 503, after: seconds * time.Second}}
	}
	for name, tt := range map[string]struct {
		err  error
		want time.Duration
	}{
		"none":                       {nil, time.Minute},
		"one that asks for nothing":  {errors.New("cut off"), time.Minute},
		"less than the back-off":     {asks(5), time.Minute},
		"more":                       {asks(600), 10 * time.Minute},
		"the first asks for more":    {errors.Join(asks(600), asks(5)), 10 * time.Minute},
		"the last asks for more":     {errors.Join(asks(5), errors.New("cut off"), asks(600)), 10 * time.Minute},
		"of two cursors":             {errors.Join(fmt.Errorf("counts: %w", asks(5)), fmt.Errorf("ledger: %w", errors.Join(asks(90), asks(600)))), 10 * time.Minute},
		"two wrapped in one message": {fmt.Errorf("%w, then %w", asks(90), asks(600)), 10 * time.Minute},
	} {
		if got := after(tt.err, time.Minute); got != tt.want {
			t.Errorf("%s: wait of %v, want %v", name, got, tt.want)
		}
	}
	for range 20 { // Stripe answers for both customers at once.
		s := newSystem(t, func(w http.ResponseWriter, _, body string) {
			w.Header().Set("Retry-After", map[bool]string{true: "5", false: "600"}[strings.Contains(body, "=c1&")])
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		_, err := s.vendor(t, Stripe).send(t.Context(), many(2))
		if got := after(err, time.Second); got != 10*time.Minute {
			t.Fatalf("wait of %v, want 10m", got)
		}
	}
}

// However many events a vendor refuses without naming them, the posts are bounded.
func TestHalvingIsBounded(t *testing.T) {
	posts := 0
	done, err := sendAll(t.Context(), many(100), func(_ context.Context, events []Event) (verdict, error) {
		posts++
		return verdict{reason: "no"}, nil
	})
	if err != nil || len(done.refused) != 100 || posts >= 300 {
		t.Errorf("error %v, %d refused in %d posts; want all in less than 300", err, len(done.refused), posts)
	}
}

// stripeMemory is a Stripe that repeats its first answer to an idempotency key, and counts an identifier once.
type stripeMemory struct {
	mu      sync.Mutex
	answers map[string]int
	counted map[string]int
	// fails is the status of new requests; -1 drops the connection before they are counted, -2 after that.
	fails int
}

func (s *stripeMemory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, id := r.Header.Get("Idempotency-Key"), r.FormValue("identifier")
	status, known := s.answers[key]
	switch {
	case known && key != "":
		http.Error(w, `{"error":{"message":"as before"}}`, status)
		return
	case s.fails == -1:
		panic(http.ErrAbortHandler)
	case s.fails > 0:
		s.answers[key] = s.fails
		http.Error(w, `{"error":{"message":"no such customer"}}`, s.fails)
		return
	case s.counted[id] > 0:
		s.answers[key] = http.StatusBadRequest
		http.Error(w, `{"error":{"message":"An event already exists with identifier `+id+`."}}`, http.StatusBadRequest)
		return
	}
	s.counted[id]++
	s.answers[key] = http.StatusOK
	if s.fails == -2 {
		panic(http.ErrAbortHandler)
	}
}

// To Stripe each try is new, whatever it stored for the try before, and an event counts once.
func TestStripeTriesAnew(t *testing.T) {
	for name, tt := range map[string]struct {
		fails         int
		lost, refused bool
	}{
		"a stored failure": {500, true, false}, "another one": {503, true, false}, "a stored refusal": {400, false, true},
		"a stored conflict": {409, false, false}, "cut before it counts": {-1, true, false}, "cut after it counts": {-2, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			memory := &stripeMemory{answers: make(map[string]int), counted: make(map[string]int), fails: tt.fails}
			server := httptest.NewServer(memory)
			defer server.Close()
			v := newVendor(server.Client(), Destination{Kind: Stripe, BaseURL: server.URL, KeyFile: secret.File(testkit.File(t, "the-key\n"))}, 0)
			done, err := v.send(t.Context(), many(1))
			_, lost := errors.AsType[*lostError](err)
			if lost != tt.lost || (len(done.refused) == 1) != tt.refused || len(done.taken) > 0 {
				t.Errorf("%+v, %v; want lost %t, refused %t", done, err, tt.lost, tt.refused)
			}
			memory.mu.Lock()
			memory.fails = 0
			memory.mu.Unlock()
			for range 2 {
				if done, err := v.send(t.Context(), many(1)); err != nil || len(done.taken) != 1 {
					t.Errorf("tried again: %+v, %v; want it taken", done, err)
				}
			}
			memory.mu.Lock()
			defer memory.mu.Unlock()
			if memory.counted["id-000"] != 1 {
				t.Errorf("counted %v, want once", memory.counted)
			}
		})
	}
}

// A failure for one customer holds up only that customer's events; a failure that concerns all customers ends the send.
func TestStripeFailuresOfOneCustomer(t *testing.T) {
	for status, taken := range map[int]int{500: 12, 401: 6} {
		s := newSystem(t, func(w http.ResponseWriter, _, body string) {
			if strings.Contains(body, "=c1&") {
				w.WriteHeader(status)
			}
		})
		events := many(18)
		done, err := s.vendor(t, Stripe).send(t.Context(), events)
		if err == nil || len(done.taken) > 12 || status == 500 && len(done.taken) != taken {
			t.Errorf("status %d: %d taken (%v), want %d", status, len(done.taken), err, taken)
		}
		if alone := len(done.failing) > 0; alone != (status == 500) {
			t.Errorf("status %d: %d events fail alone", status, len(done.failing))
		}
	}
}

// A server that can't be reached has no event.
func TestUnreachableHasNothing(t *testing.T) {
	for _, kind := range Kinds {
		s := newSystem(t, nil)
		s.url = "http://127.0.0.1:1"
		_, err := s.vendor(t, kind).send(t.Context(), many(1))
		if _, lost := errors.AsType[*lostError](err); err == nil || lost {
			t.Errorf("%s: %v, lost %t", kind, err, lost)
		}
	}
}

func FuzzLagoVerdict(f *testing.F) {
	f.Add([]byte(`{"code":"validation_errors","error_details":{"0":{"transaction_id":["value_already_exist"]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for i, why := range lagoVerdict(answer{422, text}, 3).unacceptable {
			if i < 0 || i > 2 || len(why) > maxReason {
				t.Errorf("event %d: %q", i, why)
			}
		}
	})
}

func TestLagoVerdictGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around(`{"error_details":`, growth.JSON, "}"), growth.JSON...)
	growth.Linear(t, growth.Each(inputs, func(text []byte) { lagoVerdict(answer{422, text}, 100) })...)
}
