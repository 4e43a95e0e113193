package postgres_test

import (
	"errors"
	"testing"
	"time"

	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/postgres"
	"switchyard.dev/services/webhook-egress/internal/replay"
)

// A transaction adds the count of each call once, also for a repeat. A refused call has no count.
func TestCallCounts(t *testing.T) {
	s, pool := open(t)
	jobs := postgres.Replays{Store: s}
	filter := replay.Filter{CreatedFrom: time.Now().Add(-time.Minute)}

	// Each function sends a request with an idempotency key, whose fingerprint is print.
	enqueueWith := func(c *callcount.Count, print byte, change func(*delivery.Draft)) error {
		keyed, plain := draft("acme"), draft("acme")
		keyed.Key, keyed.Fingerprint, keyed.Count = "k", [32]byte{print}, c
		change(plain)
		_, err := s.Enqueue(t.Context(), []*delivery.Draft{keyed, plain}, leaseOf(1, false))
		return err
	}
	unchanged := func(*delivery.Draft) {}
	emitWith := func(c *callcount.Count, key string, rejected error) error {
		e := happening("acme", "", "order.paid")
		e.Key, e.Rejected, e.Count = key, rejected, c
		_, err := s.FanOut(t.Context(), e)
		return err
	}
	replayWith := func(c *callcount.Count, print byte) error {
		_, _, err := jobs.Create(t.Context(), replay.Draft{
			ID: delivery.NewID(time.Now()), Organization: "acme", Filter: filter, Key: "k", Fingerprint: [32]byte{print}, Count: c,
		})
		return err
	}
	for _, tt := range []struct {
		name    string
		do      func(c *callcount.Count) error
		refused bool
		want    int
	}{
		{"enqueue", func(c *callcount.Count) error { return enqueueWith(c, 1, unchanged) }, false, 1},
		{"enqueue again", func(c *callcount.Count) error { return enqueueWith(c, 2, unchanged) }, false, 1},
		{"enqueue for two calls", func(c *callcount.Count) error {
			return enqueueWith(c, 1, func(d *delivery.Draft) { d.Count = c })
		}, false, 2},
		{"enqueue beside a rejected draft", func(c *callcount.Count) error {
			return enqueueWith(c, 1, func(d *delivery.Draft) { d.EventType = "a\x00b" })
		}, true, 0},
		{"enqueue all or none", func(c *callcount.Count) error {
			return enqueueWith(c, 1, func(d *delivery.Draft) { d.Key, d.Fingerprint, d.AllOrNone = "k", [32]byte{2}, true })
		}, true, 0},
		{"event", func(c *callcount.Count) error { return emitWith(c, "k", nil) }, false, 1},
		{"event again", func(c *callcount.Count) error { return emitWith(c, "k", nil) }, false, 1},
		{"rejected event", func(c *callcount.Count) error { return emitWith(c, "l", errors.New("rejected")) }, true, 0},
		{"replay", func(c *callcount.Count) error { return replayWith(c, 1) }, false, 1},
		{"replay again", func(c *callcount.Count) error { return replayWith(c, 1) }, false, 1},
		{"another replay", func(c *callcount.Count) error { return replayWith(c, 2) }, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.do(&callcount.Count{Organization: "acme", Key: "k", Metric: tt.name, At: time.Now()})
			if (err != nil) != tt.refused {
				t.Errorf("err = %v, want a refusal: %t", err, tt.refused)
			}
			n := testkit.Value[int](t, pool, "SELECT coalesce(sum(calls), 0)::int FROM call_count WHERE metric = $1", tt.name)
			if n != tt.want {
				t.Errorf("%d calls are counted, want %d", n, tt.want)
			}
		})
	}
}
