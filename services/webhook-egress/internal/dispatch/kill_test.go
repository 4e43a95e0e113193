package dispatch_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// Of three replicas, one after the other is killed under load, and another comes:
// nothing is lost, and no more arrives again than was under way when it was.
func TestReplicasAreKilled(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(_ http.ResponseWriter, q *http.Request) {
		select { // something is on the wire whenever one is killed
		case <-time.After(10 * time.Millisecond):
		case <-q.Context().Done():
		}
	})
	w := newWorld(t, r)
	w.limits = limitsOf(32)
	kills, enough := 6, int32(100)
	if soak() {
		kills, enough = 300, 10_000
	}
	var mu sync.Mutex
	nodes := []*node{w.start(), w.start(), w.start()}
	var taken atomic.Int32
	stop, load := make(chan struct{}), sync.WaitGroup{}
	var history struct {
		accepted []delivery.ID
		refused  int
	}
	load.Go(func() {
		history.accepted, history.refused = w.keepEnqueuing(func(i int) *node {
			mu.Lock()
			defer mu.Unlock()
			return nodes[i%len(nodes)]
		}, r, stop, &taken)
	})
	killed := 0
	for ; killed < kills || taken.Load() < enough && killed < 20*kills; killed++ {
		time.Sleep(200 * time.Millisecond)
		mu.Lock()
		victim := nodes[killed%len(nodes)]
		mu.Unlock()
		victim.stop()
		fresh := w.start()
		mu.Lock()
		nodes[killed%len(nodes)] = fresh
		mu.Unlock()
	}
	close(stop)
	load.Wait()
	w.checkHistory(history.accepted, r)
	again := 0
	for _, times := range r.perDelivery() {
		again += times - 1
	}
	t.Logf("%d accepted, %d refused, %d killed, %d arrived again", len(history.accepted), history.refused, killed, again)
	if len(history.accepted) < int(enough) {
		t.Errorf("only %d accepted", len(history.accepted))
	}
	if again > killed*w.limits.Total {
		t.Errorf("%d arrived again, want %d at most: what was under way", again, killed*w.limits.Total)
	}
}
