package inference

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	runtimemetrics "runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/platform/apierr"
)

// endless are answers that continue for as long as they are read: a head, and a text that is repeated.
var endless = []struct{ name, kind, head, more string }{
	{"whole", "application/json", `{"choices":[{"message":{"content":"`, "x"},
	{"nested", "application/json", "", "["},
	{"line", "text/event-stream", "data: ", "x"},
	{"event", "text/event-stream", "", "data: x\n"},
	{"name", "text/event-stream", "event: ", "x"},
	{"empty events", "text/event-stream", "", "data: \n\n"},
	{"events that say nothing", "text/event-stream", "", "data: {}\n\n"},
	{"comments", "text/event-stream", "", ": keep-alive\n\n"},
	{"carriage returns", "text/event-stream", "", "\r"},
}

// wellAnswer is a vendor's answer to any request.
const wellAnswer = `{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`

// newEndless returns a vendor whose answers the model's name selects.
func newEndless(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, e := range endless {
			if !strings.Contains(string(body), `"model":"`+e.name+`"`) {
				continue
			}
			w.Header().Set("Content-Type", e.kind)
			if strings.Contains(string(body), "refused") {
				w.WriteHeader(http.StatusInternalServerError)
			}
			_, err := io.WriteString(w, e.head)
			for more := []byte(strings.Repeat(e.more, 32<<10/len(e.more))); err == nil; {
				_, err = w.Write(more)
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, wellAnswer)
	}))
	t.Cleanup(server.Close)
	return server
}

// overEndless returns an engine over such a vendor, with a memory budget of limit bytes.
func overEndless(t *testing.T, limit int64) (*bench, *memory.Budget) {
	t.Helper()
	transport := network.NewTransport(time.Second)
	t.Cleanup(transport.CloseIdleConnections)
	vendor, err := openai.New(provider.Settings{Name: "a", BaseURL: newEndless(t).URL, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	b := setup(t, nil, &script{name: "a"})
	b.log = nil
	fleet := *b.Fleet()
	fleet.Planner, fleet.Providers = asNamed{}, map[string]provider.Provider{"a": vendor}
	b.Fleet = func() *Fleet { return &fleet }
	b.Clocks = Clocks{Answer: 20 * time.Second, FirstToken: 500 * time.Millisecond, Idle: time.Second, Total: 30 * time.Second}
	b.Memory = memory.New(limit, 75)
	return b, b.Memory
}

// heap returns the most bytes that objects took while f ran, beyond what they took before.
func heap(f func()) uint64 {
	read := func() uint64 {
		sample := []runtimemetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		runtimemetrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	runtime.GC()
	before, most := read(), uint64(0)
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for tick := time.NewTicker(time.Millisecond); ; {
			select {
			case <-done:
				tick.Stop()
				return
			case <-tick.C:
				most = max(most, read())
			}
		}
	}()
	f()
	close(done)
	<-watched
	return most - min(before, most)
}

// Vendors that answer without end take a bounded memory together, and the calls of others are served.
func TestEndlessAnswersAreBounded(t *testing.T) {
	const limit = 64 << 20
	b, budget := overEndless(t, limit)
	b.Ledger = &forgetful{}
	most := heap(func() {
		var calls sync.WaitGroup
		for i := range 12 {
			e := endless[i%2] // Whole answers: each is read up to the largest size.
			calls.Go(func() {
				r := request()
				r.Organization, r.Route.Model = fmt.Sprint("org-", i%4), e.name
				if _, err := b.Chat(t.Context(), r); err == nil {
					t.Errorf("%s was served", e.name)
				}
			})
		}
		for range 50 {
			r := request()
			r.Organization, r.Route.Model = "good", "fine"
			_, err := b.Chat(t.Context(), r)
			if fault := apierr.From(err); err != nil && fault.Reason != ReasonMemoryFull {
				t.Errorf("another call: %v", err)
			}
		}
		calls.Wait()
	})
	if most > 4*limit {
		t.Errorf("the heap grew by %d MiB, want at most %d", most>>20, 4*limit>>20)
	}
	if held := budget.Held(); held != 0 {
		t.Errorf("%d bytes are still charged", held)
	}
	r := request()
	r.Route.Model = "fine"
	if _, err := b.Chat(t.Context(), r); err != nil {
		t.Errorf("after them: %v", err)
	}
}

// A clock or a bound ends each kind of endless answer, streamed or not, and no memory stays charged.
func TestEachEndlessAnswerEnds(t *testing.T) {
	for _, e := range endless {
		t.Run(e.name, func(t *testing.T) {
			b, budget := overEndless(t, 256<<20)
			for _, stream := range []bool{false, true} {
				if stream != (e.kind == "text/event-stream") && e.name != "whole" {
					continue
				}
				r := request()
				r.Route.Model = e.name
				var err error
				most := heap(func() {
					if stream {
						var s *Stream
						if s, err = b.StreamChat(t.Context(), r); err == nil {
							_, err = read(s)
						}
						return
					}
					_, err = b.Chat(t.Context(), r)
				})
				if err == nil {
					t.Errorf("stream %t: it was served", stream)
				}
				if most > 192<<20 {
					t.Errorf("stream %t: the heap grew by %d MiB", stream, most>>20)
				}
			}
			if held := budget.Held(); held != 0 {
				t.Errorf("%d bytes are still charged", held)
			}
		})
	}
}

// Exhausted memory does not count against the vendor, and the caller gets its own error.
func TestFullMemoryIsNoFailureOfTheVendor(t *testing.T) {
	b, budget := overEndless(t, 1<<20)
	hog := budget.Open("hog", 0)
	if err := hog.Charge(700 << 10 / memory.Weight); err != nil {
		t.Fatal(err)
	}
	rest := budget.Open("rest", 0)
	if err := rest.Charge(320 << 10 / memory.Weight); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		r := request()
		r.Route.Model, r.Route.Substitution = "whole", false
		_, err := b.Chat(t.Context(), r)
		refused(t, err, http.StatusServiceUnavailable, ReasonMemoryFull, "")
	}
	if s := b.Health.Snapshot()[0]; s.Phase != 0 || s.Held != 0 || s.Failures != 0 {
		t.Errorf("the vendor is blamed: %s, %d held, %d failures", s.Phase, s.Held, s.Failures)
	}
	hog.Close()
	rest.Close()
	r := request()
	r.Route.Model = "fine"
	if _, err := b.Chat(t.Context(), r); err != nil {
		t.Errorf("once there is memory: %v", err)
	}
}
