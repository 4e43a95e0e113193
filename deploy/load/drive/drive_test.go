package drive

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/deploy/load/client"
)

func serve(t *testing.T, handler http.HandlerFunc) *client.Request {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	r, err := client.NewRequest(server.URL, nil, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestClosedLoopCounts(t *testing.T) {
	var served atomic.Int64
	request := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if served.Add(1)%10 == 0 {
			w.WriteHeader(http.StatusBadGateway)
		}
		_, _ = w.Write([]byte("x"))
	})
	result, err := Run(t.Context(), Load{Request: request, Connections: 4, Count: 100})
	if err != nil {
		t.Fatal(err)
	}
	if result.Done() != 90 || result.Failed != 10 || result.Failure == nil {
		t.Errorf("%d done, %d failed (%v)", result.Done(), result.Failed, result.Failure)
	}
}

// A stall of the server counts for the requests that could not leave meanwhile too.
func TestOpenLoopCountsTheWait(t *testing.T) {
	var once sync.Once
	const stall = 300 * time.Millisecond
	request := serve(t, func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() {
			select {
			case <-time.After(stall):
			case <-r.Context().Done():
			}
		})
		_, _ = w.Write([]byte("x"))
	})
	result, err := Run(t.Context(), Load{Request: request, Connections: 1, Rate: 100, Count: 30})
	if err != nil || result.Failed > 0 {
		t.Fatal(err, result.Failure)
	}
	// The requests due during the stall waited 290, 280, … ms.
	late := 0
	for _, bar := range result.Latency.Distribution() {
		if bar.From > (100 * time.Millisecond).Microseconds() {
			late += int(bar.Count)
		}
	}
	if late < 15 {
		t.Errorf("%d of 30 requests show the stall, want about 20", late)
	}
}

func TestABrokenConnectionIsOpenedAnew(t *testing.T) {
	var served atomic.Int64
	request := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if served.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte("x"))
	})
	result, err := Run(t.Context(), Load{Request: request, Connections: 1, Count: 5})
	if err != nil || result.Done() != 4 || result.Failed != 1 {
		t.Errorf("%d done, %d failed, %v", result.Done(), result.Failed, err)
	}
}
