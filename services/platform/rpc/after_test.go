package rpc_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/testkit"
)

// Functions given to After run when the handler has returned, in order and before the call's log line, however the
// handler ended and from however many goroutines they were given.
func TestAfter(t *testing.T) {
	for name, end := range map[string]func() error{
		"well": func() error { return nil }, "failed": func() error { return errors.New("no") }, "panicked": func() error { panic("no") },
	} {
		log := &testkit.Buffer{}
		server := newServer(t, log)
		server.RegisterService(echoDesc(), answer(nil))
		var order []string
		w := httptest.NewRecorder()
		server.Handle(http.MethodGet, "/v1/after/"+name, "/rpctest.EchoService/Watch", func(w http.ResponseWriter, r *http.Request) error {
			for _, what := range []string{"first", "second"} {
				rpc.After(r.Context(), func() { order = append(order, what) })
			}
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { rpc.After(r.Context(), func() { order = append(order, "beside") }) })
			}
			all.Wait()
			rpc.After(r.Context(), func() {
				if log.String() != "" {
					t.Errorf("%s: behind the call's line", name)
				}
			})
			order = append(order, "handler")
			if name == "well" {
				_, _ = io.WriteString(w, "answer")
			}
			return end()
		})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/after/"+name, http.NoBody)
		r.Header.Set("Authorization", "Bearer svc")
		server.Handler().ServeHTTP(w, r)
		if want := append([]string{"handler", "first", "second"}, slices.Repeat([]string{"beside"}, 8)...); !slices.Equal(order, want) {
			t.Errorf("%s: %v", name, order)
		}
		if log.String() == "" {
			t.Errorf("%s: no line", name)
		}
	}
}

// Outside of a call, After runs the function at once.
func TestAfterOutsideACall(t *testing.T) {
	done := false
	if rpc.After(t.Context(), func() { done = true }); !done {
		t.Error("it is still to come")
	}
}
