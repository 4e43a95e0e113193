//go:build !race

package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// An answer of any size passes in pieces. Not with -race: there sync.Pool drops what it is given at random.
func TestLargeAnswerDoesNotAllocate(t *testing.T) {
	const size = 256 << 20
	piece := make([]byte, 1<<20)
	e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		for range size / len(piece) {
			_, _ = w.Write(piece)
		}
	}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, err := io.Copy(io.Discard, e.post(t, strings.NewReader("{}"), nil).Body)
	runtime.ReadMemStats(&after)
	if err != nil || n != size {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("%d bytes allocated for an answer of %d", took, size)
	}
}
