package dispatch_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// soak reports whether the long forms of tests are asked for.
func soak() bool { return os.Getenv("SOAK") != "" }

// keepEnqueuing sends until the end of the faults, each to the node that of gives,
// and gives what was accepted.
func (w *world) keepEnqueuing(of func(i int) *node, r *receiver, stop <-chan struct{}, taken *atomic.Int32) (accepted []delivery.ID, refused int) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return accepted, refused
		case <-time.After(time.Millisecond):
		}
		a, err := of(i).service.Enqueue(w.t.Context(), request(r))
		if err != nil {
			refused++
			continue
		}
		accepted = append(accepted, a.ID)
		taken.Add(1)
	}
}

// checkHistory holds what the receiver got against what the store says.
func (w *world) checkHistory(accepted []delivery.ID, r *receiver) {
	w.t.Helper()
	until(w.t, "the queue is empty", func() bool { return w.count("SELECT count(*) FROM delivery_queue") == 0 })
	arrived := r.perDelivery()
	for _, id := range accepted {
		if arrived[id.String()] == 0 {
			w.t.Errorf("%s was accepted and is lost", id)
		}
		if record := w.get(id); record.Status != delivery.StatusDelivered {
			w.t.Errorf("%s is %s", id, record.Status)
		}
	}
	for _, broken := range []struct{ what, query string }{
		{"counted attempts without a row, or rows that are not counted", `SELECT count(*) FROM deliveries d WHERE d.attempts <>
			(SELECT count(*) FROM attempts a WHERE a.delivery_id = d.id AND a.outcome <> 'late')`},
		{"gaps between the attempts", `SELECT count(*) FROM (SELECT number, row_number() OVER (PARTITION BY delivery_id ORDER BY lease_seq) AS place
			FROM attempts WHERE outcome <> 'late') a WHERE number <> place`},
		{"attempts after the end", `SELECT count(*) FROM attempts a JOIN attempts b USING (delivery_id)
			WHERE a.outcome = 'delivered' AND b.lease_seq > a.lease_seq AND b.outcome <> 'late'`},
	} {
		if n := w.count(broken.query); n != 0 {
			w.t.Errorf("%s: %d", broken.what, n)
		}
	}
}

// faulty runs a fault again and again under load, then looks at the history.
func faulty(t *testing.T, fault func(w *world)) {
	t.Helper()
	t.Parallel()
	r := newReceiver(t, nil)
	w := newWorld(t, r)
	nodes := []*node{w.start(), w.start()}
	stop, faults, enough := make(chan struct{}), 8, int32(40)
	if soak() {
		faults, enough = 600, 10_000
	}
	var taken atomic.Int32
	var accepted []delivery.ID
	var refused int
	var load sync.WaitGroup
	load.Go(func() {
		accepted, refused = w.keepEnqueuing(func(i int) *node { return nodes[i%len(nodes)] }, r, stop, &taken)
	})
	for n := 0; n < faults || taken.Load() < enough && n < 20*faults; n++ {
		time.Sleep(200 * time.Millisecond)
		fault(w)
	}
	close(stop)
	load.Wait()
	w.pool.Reset() // The test's own reads have no second try.
	w.checkHistory(accepted, r)
	extra := 0
	for _, times := range r.perDelivery() {
		extra += times - 1
	}
	t.Logf("%d accepted, %d refused, %d arrived more than once", len(accepted), refused, extra)
	if len(accepted) < int(enough) {
		t.Errorf("only %d accepted", len(accepted))
	}
}

func TestBackendsAreTerminated(t *testing.T) {
	faulty(t, func(w *world) {
		_, _ = w.pool.Exec(w.t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name = $1 AND pid <> pg_backend_pid()`, w.t.Name())
	})
}

func TestPoolIsExhausted(t *testing.T) {
	faulty(t, func(w *world) {
		var held sync.WaitGroup
		for range 8 {
			held.Go(func() {
				conn, err := w.pool.Acquire(w.t.Context())
				if err != nil {
					return
				}
				defer conn.Release()
				_, _ = conn.Exec(w.t.Context(), "SELECT pg_sleep(0.1)")
			})
		}
		held.Wait()
	})
}

// relay passes bytes on to a server until it is cut.
type relay struct {
	net.Listener

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: listener}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { r.serve(conn, to) })
		}
	})
	t.Cleanup(func() { listener.Close(); r.set(true); serving.Wait() })
	return r
}

func (r *relay) serve(conn net.Conn, to string) {
	defer conn.Close()
	up, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer up.Close()
	r.mu.Lock()
	if r.cut {
		r.mu.Unlock()
		return
	}
	r.conns = append(r.conns, conn, up)
	r.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(up, conn); up.Close() })
	_, _ = io.Copy(conn, up)
	conn.Close()
	both.Wait()
}

// set cuts the relay or mends it.
func (r *relay) set(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	if cut {
		for _, conn := range r.conns {
			conn.Close()
		}
		r.conns = nil
	}
}

// Redis goes away while a target fails and others are well: deliveries go on, the
// breaker still holds the failing one back, and works with Redis again later.
func TestRedisIsKilled(t *testing.T) {
	t.Parallel()
	real := testkit.Redis(t)
	wire := newRelay(t, real.Options().Addr)
	client, err := redisdb.Open(t.Context(), redisdb.Options{URL: "redis://" + wire.Addr().String(), Prefix: real.Prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	target, fine := newFlaky(t), newReceiver(t, nil)
	w := newWorld(t, target.receiver, fine)
	w.breakers, w.rates = redisdb.NewKV(client, "breaker"), redisdb.NewKV(client, "rate")
	w.breaker.Failures, w.breaker.Pause, w.breaker.MaxPause = 3, 400*time.Millisecond, time.Second
	n, second := w.start(), w.start()
	wire.set(true)
	var ids []delivery.ID
	for i := range 20 {
		ids = append(ids, w.enqueue([]*node{n, second}[i%2], request(target.receiver)))
		w.untilStatus(w.enqueue(n, request(fine)), delivery.StatusDelivered)
	}
	until(t, "the breaker opens without Redis", func() bool {
		return w.count("SELECT count(*) FROM flow WHERE parked_reason = 'breaker_open' AND opened > 0") == 1
	})
	wire.set(false)
	until(t, "the state is shared again", func() bool {
		keys, err := real.Keys(t.Context(), real.Key("breaker")+"*").Result()
		return err == nil && len(keys) == 1
	})
	target.mended.Store(true)
	for _, id := range ids {
		w.untilStatus(id, delivery.StatusDelivered)
	}
}

// One organization has much due at a target that hangs: how long the deliveries of
// the others take must not depend on it.
func TestFairness(t *testing.T) {
	samples, most := 100, 4.0 // of a machine that does other things too
	if soak() {
		samples, most = 1000, 1.5
	}
	measure := func(t *testing.T, bad bool) time.Duration {
		t.Helper()
		release := make(chan struct{})
		slow := newReceiver(t, func(http.ResponseWriter, *http.Request) { <-release })
		fast := newReceiver(t, nil)
		w := newWorld(t, slow, fast)
		w.limits = limitsOf(32)
		n := w.start()
		if bad {
			w.leave(200, "bad", slow.URL)
			until(t, "the slow target has its share", func() bool { return slow.count() >= w.limits.Flow })
		}
		took := make([]time.Duration, 0, samples)
		for i := range cap(took) {
			q := request(fast)
			q.Organization = fmt.Sprint("org-", i%40)
			began := time.Now()
			if _, err := n.service.Enqueue(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			for fast.count() <= i {
				time.Sleep(time.Millisecond)
			}
			took = append(took, time.Since(began))
		}
		close(release)
		slices.Sort(took)
		return took[len(took)*95/100]
	}
	alone, beside := measure(t, false), measure(t, true)
	t.Logf("p95 alone %s, beside a tenant that hangs %s", alone, beside)
	if beside.Seconds() > most*alone.Seconds()+0.05 {
		t.Errorf("p95 %s alone and %s beside a tenant that hangs", alone, beside)
	}
}

// Another transaction stays open, so that no dead row can be removed.
func TestHeldHorizon(t *testing.T) {
	r := newReceiver(t, nil)
	w := newWorld(t, r)
	w.start()
	rounds, each := 1, 100
	if soak() {
		rounds, each = 20, 5000
	}
	left := 0
	drain := func() time.Duration {
		began := time.Now()
		for range rounds {
			for range each / 100 {
				w.leave(100, "acme", r.URL)
			}
			left += each
			// Not the queue's rows: to count them is to read all dead ones too.
			until(t, "all have arrived", func() bool { return r.count() >= left })
		}
		until(t, "the queue is empty", func() bool { return w.count("SELECT count(*) FROM delivery_queue") == 0 })
		return time.Since(began)
	}
	drain() // warm
	free := drain()
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	for _, text := range []string{"SET idle_in_transaction_session_timeout = 0", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM flow"} {
		if _, err := tx.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	held := drain()
	t.Logf("%d deliveries: %s, with the horizon held %s (%.2fx)", rounds*each, free, held, held.Seconds()/free.Seconds())
	if held > 4*free+2*time.Second {
		t.Errorf("%s with the horizon held, %s without", held, free)
	}
}

// The clock of a replica is wrong, or is set while it runs: deliveries are made
// all the same, and none before its time.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			t.Parallel()
			target := newFlaky(t)
			w := newWorld(t, target.receiver)
			w.breaker.Failures, w.breaker.Pause, w.breaker.MaxPause = 3, 100*time.Millisecond, 200*time.Millisecond
			var mu sync.Mutex
			var offset time.Duration
			w.now = func() time.Time {
				mu.Lock()
				defer mu.Unlock()
				return time.Now().Add(offset)
			}
			n := w.start()
			id := w.enqueue(n, request(target.receiver))
			until(t, "the breaker opens", func() bool { return w.count("SELECT count(*) FROM flow WHERE opened > 0") == 1 })
			mu.Lock()
			offset = jump
			mu.Unlock()
			target.mended.Store(true)
			w.untilStatus(id, delivery.StatusDelivered)
			w.untilStatus(w.enqueue(n, request(target.receiver)), delivery.StatusDelivered)
		})
	}
}
