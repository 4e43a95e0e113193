package rpc_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/rpc"
)

// recorder records counts in memory.
type recorder struct {
	mu      sync.Mutex
	counts  []callcount.Count
	settled int
	refuses bool  // it takes no count
	loses   error // of what it has taken
}

func (r *recorder) Record(_ context.Context, count callcount.Count) (settled func() error, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuses {
		return nil, errors.New("full")
	}
	r.counts = append(r.counts, count)
	return func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.settled++
		return r.loses
	}, nil
}

// counting serves the echo service with a route for each form of answer.
func counting(t *testing.T, counts *recorder) *bench {
	t.Helper()
	b := setup(t, echo, func(o *rpc.Options) { o.Counts = counts })
	for path, handle := range map[string]func(http.ResponseWriter, *http.Request) error{
		"/v1/whole": func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Length", "4")
			_, err := io.WriteString(w, "done")
			return err
		},
		"/v1/stream": func(w http.ResponseWriter, _ *http.Request) error {
			_ = http.NewResponseController(w).Flush()
			_, err := io.WriteString(w, "done")
			return err
		},
		"/v1/taken": func(w http.ResponseWriter, r *http.Request) error {
			if _, ok := callcount.Take(r.Context(), time.Now()); !ok {
				return errors.New("nothing to take")
			}
			_, err := io.WriteString(w, "done")
			return err
		},
		"/v1/moved": func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(http.StatusFound); return nil },
		"/v1/fails": func(http.ResponseWriter, *http.Request) error { return errors.New("no") },
	} {
		b.server.Handle(http.MethodPost, path, "/rpctest.EchoService/Echo", handle)
	}
	if err := b.server.Check(); err != nil {
		t.Fatal(err)
	}
	return b
}

// The edge's calls count once when they succeed, for the customer whose calls they are, before their answers are complete.
func TestCounts(t *testing.T) {
	for name, tt := range map[string]struct {
		path, token, metric string
		status              int
		recorded            int // by the recorder
		receipt             bool
	}{
		"whole":             {"/v1/whole", "svc", "events", 200, 1, true},
		"stream":            {"/v1/stream", "svc", "events", 200, 1, true},
		"transcoded":        {"/v1/echo/ann", "svc", "events", 200, 1, true},
		"taken":             {"/v1/taken", "svc", "events", 200, 0, true},
		"no success":        {"/v1/moved", "svc", "events", 302, 0, false},
		"failure":           {"/v1/fails", "svc", "events", 500, 0, false},
		"counts as nothing": {"/v1/whole", "svc", "", 200, 0, false},
		"another caller":    {"/v1/whole", "op", "events", 401, 0, false},
		"unreadable metric": {"/v1/whole", "svc", "a b", 400, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			counts := new(recorder)
			b := counting(t, counts)
			status, body, header := b.do(t, http.MethodPost, tt.path, tt.token, "{}",
				"X-Count-Metric", tt.metric, "X-Organization-Id", "acme", "X-Key-Id", "key_1", "X-User-Id", "ann", "X-Switchyard-Tags", "team=web")
			if status != tt.status || len(counts.counts) != tt.recorded || counts.settled != tt.recorded || (header.Get(callcount.HeaderCounted) != "") != tt.receipt {
				t.Fatalf("%d %s, recorded %d, settled %d, receipt %q; want %d, %d and receipt %t",
					status, body, len(counts.counts), counts.settled, header.Get(callcount.HeaderCounted), tt.status, tt.recorded, tt.receipt)
			}
			for _, c := range counts.counts {
				if c.Organization != "acme" || c.Key != "key_1" || c.Metric != "events" || c.User != "ann" || c.Tags["team"] != "web" || time.Since(c.At) > time.Minute {
					t.Errorf("count %+v", c)
				}
			}
		})
	}
}

// An answer whose count is lost, or can't be recorded, doesn't end as a whole one.
func TestUncountedAnswerIsCut(t *testing.T) {
	for name, counts := range map[string]*recorder{"refused": {refuses: true}, "lost": {loses: errors.New("no disk")}} {
		for _, path := range []string{"/v1/whole", "/v1/stream", "/v1/echo/ann"} {
			t.Run(name+" "+path, func(t *testing.T) {
				face := counting(t, counts).http
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, face.URL+path, strings.NewReader("{}"))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", "Bearer svc")
				r.Header.Set("X-Count-Metric", "events")
				r.Header.Set("X-Organization-Id", "acme")
				answer, err := http.DefaultClient.Do(r)
				if err == nil {
					_, err = io.ReadAll(answer.Body)
					_ = answer.Body.Close()
				}
				if err == nil {
					t.Error("the caller got a whole answer")
				}
			})
		}
	}
}
