package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"switchyard.dev/services/notify/internal/breaker"
	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch"
	"switchyard.dev/services/notify/internal/dispatch/queuetest"
	"switchyard.dev/services/notify/internal/rate"
	"switchyard.dev/services/notify/internal/shared"
)

// transport answers by a script, the last answer for ever, and notes when it was asked.
type transport struct {
	takes   time.Duration
	answers []channel.Outcome

	mu    sync.Mutex
	at    []time.Duration // since it was made
	began time.Time
	busy  int
	most  int
}

func (x *transport) Deliver(ctx context.Context, _ channel.Task) channel.Outcome {
	x.mu.Lock()
	x.at = append(x.at, time.Since(x.began))
	answer := x.answers[min(len(x.at), len(x.answers))-1]
	x.busy++
	x.most = max(x.most, x.busy)
	x.mu.Unlock()
	select {
	case <-time.After(x.takes):
	case <-ctx.Done():
		answer = channel.Lost(channel.ClassTimeout)
	}
	x.mu.Lock()
	x.busy--
	x.mu.Unlock()
	return answer
}

type plain struct{}

func (plain) Open(sealed []byte, _ string) ([]byte, error) { return sealed, nil }

// world is an engine over a queue in memory, in a bubble of its own time.
type world struct {
	queue *queuetest.Memory
	x     *transport
	o     dispatch.Options
}

func newWorld(answers ...channel.Outcome) *world {
	quiet := slog.New(slog.DiscardHandler)
	states := func(merge func(a, b string) string, life time.Duration) *shared.States {
		return shared.New(shared.Options{Merge: merge, Life: life, Log: quiet, Now: time.Now})
	}
	w := &world{queue: &queuetest.Memory{}, x: &transport{answers: answers, began: time.Now()}}
	policy := breaker.Policy{Failures: 3, Pause: 10 * time.Second, MaxPause: time.Minute}
	middle := func() float64 { return 0.5 } // of the jitter of a pause: none
	w.o = dispatch.Options{
		Channel: channel.Slack, Transport: w.x, Store: w.queue, Opener: plain{},
		Breaker: breaker.New(states(breaker.Merge, breaker.Life), policy, time.Now, middle),
		Limiter: rate.New(states(rate.Merge, rate.Life), time.Second, time.Now),
		Policy:  channel.Policy{Schedule: []time.Duration{5 * time.Second, 30 * time.Second}, MaxAttempts: 4}, InFlight: 4,
		Timeout: 15 * time.Second, Lease: 20 * time.Second, Log: quiet, Meter: metricnoop.NewMeterProvider().Meter(""),
		Now: time.Now, Random: func() float64 { return 0 },
	}
	return w
}

// run runs the engine for a time and then drains it.
func (w *world) run(t *testing.T, d time.Duration) {
	t.Helper()
	engine, err := dispatch.New(w.o)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = engine.Run(t.Context()) })
	time.Sleep(d)
	if err := engine.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	running.Wait()
}

// sentAt wants attempts at these seconds of the test.
func (w *world) sentAt(t *testing.T, want ...float64) {
	t.Helper()
	var got []float64
	for _, at := range w.x.at {
		got = append(got, at.Round(100*time.Millisecond).Seconds())
	}
	if !slices.Equal(got, want) {
		t.Errorf("sent at %v, want %v", got, want)
	}
}

func (w *world) wantLog(t *testing.T, id uuid.UUID, end string, want ...string) {
	t.Helper()
	state := w.queue.State(id)
	var got []string
	for _, try := range state.Tries {
		got = append(got, fmt.Sprint(try.Number, " ", try.Outcome.Kind, " ", try.Outcome.Class))
	}
	is := "open"
	switch {
	case state.Delivered && state.Doubled:
		is = "delivered, perhaps twice"
	case state.Delivered:
		is = "delivered"
	case state.Ended:
		is = "failed"
	}
	if diff := cmp.Diff(want, got); diff != "" || is != end {
		t.Errorf("%s, want %s; attempts (-want +got):\n%s", is, end, diff)
	}
}

func TestScheduleOfAttempts(t *testing.T) {
	tests := map[string]struct {
		answers  []channel.Outcome
		lifetime time.Duration
		at       []float64
		end      string
		log      []string
	}{
		"at once": {[]channel.Outcome{channel.Delivered(200)}, time.Hour, []float64{0}, "delivered", []string{"1 ok "}},
		"by the schedule, whose last delay repeats": {
			[]channel.Outcome{channel.Retry(channel.ClassServer, 500, 0)},
			time.Hour,
			[]float64{0, 5, 35, 65},
			"failed",
			[]string{"1 retry_after http_5xx", "2 retry_after http_5xx", "3 retry_after http_5xx", "4 retry_after http_5xx"},
		},
		"not before the receiver says": {
			[]channel.Outcome{channel.Retry(channel.ClassServer, 503, 20*time.Second), channel.Delivered(200)},
			time.Hour,
			[]float64{0, 20},
			"delivered",
			[]string{"1 retry_after http_5xx", "2 ok "},
		},
		"never after the deadline": {
			[]channel.Outcome{channel.Retry(channel.ClassServer, 500, 0)},
			10 * time.Second,
			[]float64{0, 5},
			"failed",
			[]string{"1 retry_after http_5xx", "2 retry_after http_5xx", "3 permanent expired"},
		},
		"unknown, and then perhaps twice": {
			[]channel.Outcome{channel.Lost(channel.ClassReset), channel.Delivered(200)},
			time.Hour,
			[]float64{0, 5},
			"delivered, perhaps twice",
			[]string{"1 unknown connection_reset", "2 ok "},
		},
		"handed over: no attempt until it ends": {
			[]channel.Outcome{channel.HandedOver("dlv", 2*time.Second), channel.HandedOver("dlv", 3*time.Second), channel.Delivered(200)},
			time.Hour,
			[]float64{0, 2, 5},
			"delivered",
			[]string{"1 ok "},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(tt.answers...)
				id := w.queue.Add(channel.Slack, "", tt.lifetime)
				w.run(t, 10*time.Minute)
				w.sentAt(t, tt.at...)
				w.wantLog(t, id, tt.end, tt.log...)
			})
		})
	}
}

// What goes by one lane goes one a second, in any number of replicas, and not at
// all while the receiver asks for a pause.
func TestLaneIsSpaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(channel.Delivered(200), channel.Retry(channel.ClassRate, 429, 10*time.Second), channel.Delivered(200))
		for range 4 {
			w.queue.Add(channel.Slack, "lane", time.Hour)
		}
		w.run(t, time.Minute)
		w.sentAt(t, 0, 1, 11, 12, 13)
	})
}

// Places that were reserved before a pause of everything aren't made use of all at
// once after it.
func TestNoBurstAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(channel.Delivered(200))
		for range 4 {
			w.queue.Add(channel.Slack, "lane", time.Hour)
		}
		w.run(t, 500*time.Millisecond)
		time.Sleep(time.Minute)
		w.run(t, time.Minute)
		w.sentAt(t, 0, 60.5, 61.5, 62.5)
	})
}

// A host that is down is left alone for a while, then asked by one attempt; what
// waited goes when that gets through. The wait is no attempt.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := channel.Retry(channel.ClassConnect, 0, 0)
		down.HostFailed = true
		w := newWorld(down, down, down, channel.Delivered(200))
		w.x.takes = 500 * time.Millisecond
		var ids []uuid.UUID
		for range 3 {
			ids = append(ids, w.queue.Add(channel.Slack, "", time.Hour))
		}
		w.run(t, time.Minute)
		w.sentAt(t, 0, 0, 0, 10.5, 11.5, 11.5)
		for _, id := range ids {
			w.wantLog(t, id, "delivered", "1 retry_after connect_failed", "2 ok ")
		}
	})
}

// A dead sender's recipient is tried again after its lease, and marked.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(channel.Delivered(200))
		id := w.queue.Add(channel.Slack, "", time.Hour)
		if _, err := w.queue.Take(t.Context(), dispatch.Claim{Channel: channel.Slack, Count: 1, Lease: w.o.Lease}); err != nil {
			t.Fatal(err)
		}
		w.run(t, time.Minute)
		w.sentAt(t, 20)
		w.wantLog(t, id, "delivered, perhaps twice", "1 unknown sender_lost", "2 ok ")
	})
}

// While the store is away nothing is sent again: the result waits for it.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(channel.Delivered(200))
		w.x.takes = time.Second
		id := w.queue.Add(channel.Slack, "", time.Hour)
		time.AfterFunc(500*time.Millisecond, func() { w.queue.Fail(errors.New("away")) })
		time.AfterFunc(8*time.Second, func() { w.queue.Fail(nil) })
		w.run(t, time.Minute)
		w.sentAt(t, 0)
		w.wantLog(t, id, "delivered", "1 ok ")
	})
}

// A result that the store never takes doesn't hold up other results.
func TestRejectedResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(channel.Delivered(200))
		first, second := w.queue.Add(channel.Slack, "", time.Hour), w.queue.Add(channel.Slack, "", time.Hour)
		w.o.Store = rejecting{w.queue, first}
		w.run(t, 10*time.Second)
		w.wantLog(t, first, "open")
		w.wantLog(t, second, "delivered", "1 ok ")
	})
}

// rejecting takes no result of one notification.
type rejecting struct {
	*queuetest.Memory

	of uuid.UUID
}

func (s rejecting) Settle(ctx context.Context, name channel.Name, results []dispatch.Result) ([]bool, error) {
	for _, r := range results {
		if r.Leased.Notification == s.of {
			return nil, fmt.Errorf("bad value: %w", dispatch.ErrRejected)
		}
	}
	return s.Memory.Settle(ctx, name, results)
}

// No more run at a time than there are slots, also when much is due.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(channel.Delivered(200))
		w.x.takes = time.Duration(1+rand.IntN(3)) * time.Second
		for range 20 {
			w.queue.Add(channel.Slack, "", time.Hour)
		}
		w.run(t, time.Minute)
		if len(w.x.at) != 20 || w.x.most != w.o.InFlight {
			t.Errorf("%d attempts, %d at a time", len(w.x.at), w.x.most)
		}
	})
}

// A drain lets what is under way end; when its time is over it cuts, and what may
// have been sent is logged as that.
func TestDrain(t *testing.T) {
	for name, tt := range map[string]struct {
		takes time.Duration
		want  []string
		end   string
	}{
		"ends":   {3 * time.Second, []string{"1 ok "}, "delivered"},
		"is cut": {10 * time.Second, []string{"1 unknown timeout"}, "open"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(channel.Delivered(200))
				w.x.takes = tt.takes
				id := w.queue.Add(channel.Slack, "", time.Hour)
				engine, err := dispatch.New(w.o)
				if err != nil {
					t.Fatal(err)
				}
				var running sync.WaitGroup
				running.Go(func() { _ = engine.Run(t.Context()) })
				time.Sleep(time.Second)
				grace, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_ = engine.Drain(grace)
				running.Wait()
				w.wantLog(t, id, tt.end, tt.want...)
			})
		})
	}
}
