package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// line up callers, each a moment after the one before, and returns the order in which they were served.
type lineup struct {
	mu    sync.Mutex
	order []string
	group sync.WaitGroup
}

func (l *lineup) add(t *testing.T, b *Books, name string, d Demand) {
	t.Helper()
	ctx := t.Context()
	l.group.Go(func() {
		r, err := b.Reserve(ctx, d)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		l.mu.Lock()
		l.order = append(l.order, name)
		l.mu.Unlock()
		r.Settle(d.tokens())
	})
	time.Sleep(time.Millisecond)
}

var hundred = Limit{Tokens: 100_000}

func queued(organization string, tokens int64) Demand {
	return Demand{Queue: "q", Organization: organization, Wait: 10 * time.Minute, Alternatives: [][]Claim{claim("x/1", hundred, tokens)}}
}

// full returns Books of which the subject x/1 is used up, by calls of the organization "before".
func full(t *testing.T) *Books {
	t.Helper()
	b := running(t, Options{})
	d := queued("before", 100_000)
	if r, err := b.Reserve(t.Context(), d); err != nil {
		t.Fatal(err)
	} else {
		r.Settle(100_000)
	}
	return b
}

func count(order []string, name string) (n int) {
	for _, other := range order {
		if other == name {
			n++
		}
	}
	return n
}

// An organization with many callers does not hold up one with few, and weights divide what is free.
func TestQueueIsFair(t *testing.T) {
	for name, c := range map[string]struct{ weight, least, most int }{"equal": {1, 18, 22}, "three times": {3, 28, 32}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := full(t)
				var l lineup
				for range 100 {
					l.add(t, b, "many", queued("many", 2000))
				}
				for range 40 {
					d := queued("few", 2000)
					d.Weight = c.weight
					l.add(t, b, "few", d)
				}
				l.group.Wait()
				if got := count(l.order[:40], "few"); got < c.least || got > c.most {
					t.Errorf("%d of the first 40 are of the one with few, want %d to %d", got, c.least, c.most)
				}
			})
		})
	}
}

// Who was away earns nothing by it, and pays nothing for it.
func TestQueueAfterIdling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := full(t)
		var l lineup
		for range 50 {
			l.add(t, b, "a", queued("a", 2000))
		}
		for range 50 {
			l.add(t, b, "b", queued("b", 2000))
		}
		l.group.Wait()
		l.order = nil
		for range 30 {
			l.add(t, b, "a", queued("a", 2000))
		}
		for range 30 {
			l.add(t, b, "c", queued("c", 2000))
		}
		l.group.Wait()
		if got := count(l.order[:30], "c"); got < 12 || got > 18 {
			t.Errorf("%d of the first 30 are of the one that comes late, want about 15", got)
		}
	})
}

// A large call is passed by a few small ones, then what becomes free is kept for it.
func TestQueueKeepsRoomForALargeCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := full(t)
		var l lineup
		for range 10 {
			l.add(t, b, "warm", queued("small", 1000))
		}
		l.add(t, b, "large", queued("large", 60_000))
		for range 200 {
			l.add(t, b, "small", queued("small", 1000))
		}
		l.group.Wait()
		if at := slices.Index(l.order, "large"); at < 0 || at > 10+maxBypasses+2 {
			t.Errorf("the large call was number %d", at)
		}
	})
}

// A caller that lacks something of its own holds up no other.
func TestQueueOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := full(t)
		time.Sleep(62 * time.Second)
		d := queued("narrow", 10)
		d.Claims = claim("key/1", Limit{Requests: 1}, 10)
		r, err := b.Reserve(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		r.Settle(10)
		var l lineup
		l.add(t, b, "narrow", d)
		time.Sleep(time.Second)
		begun := time.Now()
		other, err := b.Reserve(t.Context(), queued("other", 10))
		if err != nil || time.Since(begun) > time.Second {
			t.Fatalf("%v after %v", err, time.Since(begun))
		}
		other.Settle(10)
		l.group.Wait()
	})
}

func TestQueueRefusesAtEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := full(t)
		d := queued("a", 1000)
		d.Wait = 30 * time.Second
		if r := refused(t, b, d, CauseLimit); r.RetryAfter < 60*time.Second || r.RetryAfter > 61*time.Second || r.Waited != 0 {
			t.Errorf("%+v, want a minute", r)
		}
		var l lineup
		for range 99 {
			l.add(t, b, "a", queued("a", 1000))
		}
		d = queued("a", 10_000)
		d.Wait = 90 * time.Second
		if r := refused(t, b, d, CauseQueue); r.RetryAfter < 100*time.Second || r.RetryAfter > 3*time.Minute {
			t.Errorf("%+v, want about two minutes", r)
		}
		refused(t, b, func() Demand { d := queued("a", 1); d.Wait = 0; return d }(), CauseQueue)
		l.group.Wait()
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := full(t)
		b.MaxWaiting, b.MaxWaitingEach = 10, 6
		var l lineup
		ofModel := func(i int) Demand {
			d := queued("a", 10)
			d.Queue = fmt.Sprint("model ", i%2)
			return d
		}
		for i := range 6 {
			l.add(t, b, "a", ofModel(i))
		}
		refused(t, b, ofModel(0), CauseQueue)
		refused(t, b, ofModel(1), CauseQueue)
		for i := range 4 {
			l.add(t, b, "other", queued(fmt.Sprint(i), 10))
		}
		refused(t, b, queued("b", 10), CauseQueue)
		l.group.Wait()
		if n := b.Waiting(); n != 0 || len(b.waitingOf) != 0 {
			t.Errorf("%d still wait, of %v", n, b.waitingOf)
		}
	})
}

// A caller whose client is gone leaves at once, also if it has the lead; the next one takes over.
func TestQueueClientGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := full(t)
		ctx, gone := context.WithCancel(t.Context())
		var l lineup
		l.group.Go(func() {
			if r, err := b.Reserve(ctx, queued("a", 10)); !errors.Is(err, context.Canceled) || r != nil {
				t.Errorf("%v, %v, want it cancelled", r, err)
			}
		})
		time.Sleep(time.Millisecond)
		l.add(t, b, "b", queued("b", 10))
		gone()
		synctest.Wait()
		if n := b.Waiting(); n != 1 {
			t.Errorf("%d wait, want one", n)
		}
		l.group.Wait()
	})
}

func TestQueueWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := full(t)
		begun := time.Now()
		r, err := b.Reserve(t.Context(), queued("a", 10))
		if err != nil || r.Waited() != time.Since(begun) || r.Waited() < 59*time.Second {
			t.Fatalf("waited %v, %v", r.Waited(), err)
		}
		r.Settle(10)
	})
}

// A caller does not wait longer than it may.
func TestQueueExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := running(t, Options{})
		r, err := b.Reserve(t.Context(), queued("a", 90_000))
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		d := queued("a", 20_000)
		d.Wait = 70 * time.Second
		go func() {
			time.Sleep(30 * time.Second)
			b.Exhausted("x/1", 5*time.Minute)
		}()
		if got := refused(t, b, d, CauseWaited); time.Since(begun) != d.Wait || got.Waited != d.Wait || got.RetryAfter < 4*time.Minute {
			t.Errorf("%+v after %v", got, time.Since(begun))
		}
		r.Settle(90_000)
	})
}

// A caller is not refused at entry while calls in flight may give back what it needs, nor before the shared books know
// what they gave back.
func TestQueueHopesForSettlements(t *testing.T) {
	for name, settles := range map[string]time.Duration{"settled just now": 0, "settled while it waits": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := running(t, Options{Store: &network{Memory: &Memory{}}})
				time.Sleep(3 * time.Second)
				d := queued("a", 60_000)
				d.Wait = 5 * time.Second
				first, err := b.Reserve(t.Context(), d)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					time.Sleep(settles)
					first.Settle(10)
				}()
				if settles == 0 {
					synctest.Wait()
				}
				second, err := b.Reserve(t.Context(), d)
				if err != nil || second.Waited() > settles+time.Second {
					t.Fatalf("%+v, %v", second, err)
				}
				d.Alternatives = [][]Claim{claim("x/1", Limit{Requests: 2}, 10)} // What requests took is never given back.
				refused(t, b, d, CauseLimit)
				second.Settle(10)
			})
		})
	}
}

// Those that wait are expected to take what calls took lately of what they book: no caller is refused at entry for bookings
// that will be given back.
func TestQueueExpectsWhatCallsTake(t *testing.T) {
	for taken, cause := range map[float64]Cause{1: CauseQueue, 0.01: CauseWaited} {
		synctest.Test(t, func(t *testing.T) {
			b := full(t)
			b.queues["q"].taken = taken
			var l lineup
			for range 20 {
				l.add(t, b, "a", queued("a", 10_000))
			}
			d := queued("a", 10_000)
			d.Wait = 90 * time.Second
			refused(t, b, d, cause)
			l.group.Wait()
		})
	}
	b := New(Options{})
	q := b.queue("q")
	for range 200 {
		b.learnTaken(&Reservation{queue: "q", tokens: 100}, 30)
	}
	if q.taken < 0.299 || q.taken > 0.301 {
		t.Errorf("calls take %v of what they book, want 0.3", q.taken)
	}
}

// What a settlement gives back goes to who waits, at once.
func TestQueueWakesOnSettlement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := running(t, Options{})
		r, err := b.Reserve(t.Context(), queued("a", 100_000))
		if err != nil {
			t.Fatal(err)
		}
		var l lineup
		begun := time.Now()
		l.add(t, b, "b", queued("b", 1000))
		time.Sleep(5 * time.Second)
		r.Settle(10)
		l.group.Wait()
		if took := time.Since(begun); took > 5*time.Second+100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// Calls of a queue in which no caller waits do not wait for each other.
func TestQueueDirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &network{Memory: &Memory{}}
		b := running(t, Options{Store: store})
		time.Sleep(3 * time.Second)
		begun := time.Now()
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				d := queued("a", 1000)
				d.Wait = 0
				if _, err := b.Reserve(t.Context(), d); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if took := time.Since(begun); took > time.Millisecond {
			t.Errorf("50 calls took %v", took)
		}
	})
}

// The counters of a replica that was on its own begin anew: only their differences mean something to the others.
func TestRebase(t *testing.T) {
	b := New(Options{})
	busy, idle := b.queue("busy"), b.queue("idle")
	for name, served := range map[string]float64{"first": 5_000_500, "second": 5_000_520, "idle": 100} {
		busy.lines[name] = &line{organization: name, served: served}
	}
	for _, name := range []string{"first", "second"} {
		busy.lines[name].waiters = []*waiter{{line: busy.lines[name]}}
	}
	busy.waiting = 2
	busy.reached = 5_000_510
	idle.lines["first"], idle.reached = &line{organization: "first", served: 700}, 690
	b.outbox.served[servedKey{"busy", "first"}] = 9
	b.rebase()
	got := []float64{busy.lines["first"].served, busy.lines["second"].served, busy.lines["idle"].served, busy.reached, idle.lines["first"].served, idle.reached}
	if want := []float64{0, 20, 0, 10, 10, 0}; !slices.Equal(got, want) || len(b.outbox.served) != 0 {
		t.Errorf("%v with %v to tell, want %v", got, b.outbox.served, want)
	}
}
