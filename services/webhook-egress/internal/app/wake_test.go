package app

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit"
)

// waker is the wake-ups of one replica, and how often it heard of others.
type waker struct {
	*wakes

	received chan struct{}
}

func newWaker(t *testing.T, client *redisdb.Client) *waker {
	t.Helper()
	w := &waker{wakes: newWakes(client, testkit.Logger(t)), received: make(chan struct{}, 1000)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.run(ctx, func() { w.received <- struct{}{} }) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

// listening waits until the channel has so many subscribers.
func listening(t *testing.T, client *redisdb.Client, n int64) {
	t.Helper()
	end := time.Now().Add(10 * time.Second)
	for {
		channel := client.Key("wake")
		counts, err := client.PubSubNumSub(t.Context(), channel).Result()
		if err == nil && counts[channel] == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v subscribers, want %d, %v", counts, n, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (w *waker) hears(t *testing.T, what string) {
	t.Helper()
	select {
	case <-w.received:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: nothing heard", what)
	}
}

// A replica that leaves deliveries in the store wakes the others. Many calls at once become few.
func TestReplicasWakeEachOther(t *testing.T) {
	client := testkit.Redis(t)
	a, b := newWaker(t, client), newWaker(t, client)
	listening(t, client, 2)
	a.notify()
	b.hears(t, "the first call")
	for len(b.received) > 0 {
		<-b.received
	}
	for range 100_000 {
		a.notify()
	}
	b.hears(t, "the calls that became few")
	time.Sleep(3 * wakeGap)
	if calls := len(b.received); calls > 50 {
		t.Errorf("100,000 calls became %d", calls)
	}
}

// A subscription that is cut is made anew.
func TestWakesComeBack(t *testing.T) {
	client := testkit.Redis(t)
	named, err := redisdb.Open(t.Context(), redisdb.Options{URL: "redis://" + client.Options().Addr + "?client_name=" + client.Prefix, Prefix: client.Prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = named.Close() })
	a, b := newWaker(t, client), newWaker(t, named)
	listening(t, client, 2)
	list, err := client.ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	cut := false
	for line := range strings.Lines(list) {
		if strings.Contains(line, "name="+client.Prefix+" ") && strings.Contains(line, " sub=1 ") {
			id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
			cut = client.ClientKillByFilter(t.Context(), "ID", id).Err() == nil
		}
	}
	began := time.Now()
	if !cut {
		t.Fatal("no subscription was cut")
	}
	for { // A call that is made before the subscription is back is not heard.
		a.notify()
		select {
		case <-b.received:
			return
		case <-time.After(50 * time.Millisecond):
		}
		if t.Context().Err() != nil || time.Since(began) > 10*time.Second {
			t.Fatal("never heard again")
		}
	}
}

// Without Redis nothing is called and nothing waits.
func TestNoRedisNoWakes(t *testing.T) {
	a := newWaker(t, nil)
	for range 10 {
		a.notify()
	}
}
