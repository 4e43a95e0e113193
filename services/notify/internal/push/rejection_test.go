package push

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/webpush"
	"switchyard.dev/services/platform/testkit"
)

// rejectedKeys keeps what is recorded.
type rejectedKeys struct {
	mu  sync.Mutex
	all []Rejection
}

func (k *rejectedKeys) Reject(_ context.Context, rejected []Rejection) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, rejected...)
	return nil
}

func TestRejections(t *testing.T) {
	unauthorized, accepted := webpush.Answer{Verdict: webpush.Unauthorized, Status: 403}, webpush.Answer{Verdict: webpush.Accepted, Status: 201}
	type step struct {
		answer webpush.Answer
		after  time.Duration
	}
	for name, tt := range map[string]struct {
		steps []step
		want  bool
	}{
		"one refusal":                     {[]step{{unauthorized, 0}}, false},
		"another one":                     {[]step{{unauthorized, 0}, {unauthorized, time.Second}}, true},
		"another one after an acceptance": {[]step{{unauthorized, 0}, {accepted, time.Second}, {unauthorized, time.Second}}, false},
		"another one long after":          {[]step{{unauthorized, 0}, {unauthorized, 2 * time.Hour}}, false},
		"another subscription's key": {[]step{
			{unauthorized, 0}, {webpush.Answer{Verdict: webpush.Mismatch, Status: 403}, time.Second},
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, store := newWorld(t), &rejectedKeys{}
				w.transport.rejections.store = store
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- w.transport.rejections.Run(ctx) }()
				for _, s := range tt.steps {
					time.Sleep(s.after)
					w.answer = s.answer
					w.transport.Deliver(t.Context(), w.task(t, channel.Target{User: "ann"}))
				}
				time.Sleep(rejectionsEvery)
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				var want []Rejection
				if tt.want {
					want = []Rejection{{KeyAt{"https://fcm.googleapis.com", w.device.KeyID}, 403}}
				}
				if diff := cmp.Diff(want, store.all); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Pushes that were in flight together count once, and callers with ever new hosts take a bounded part of the memory.
func TestRejectionsAreBounded(t *testing.T) {
	r, now := NewRejections(nil, testkit.Logger(t)), time.Now()
	for range 100 {
		r.refused(KeyAt{"https://a", "k"}, 401, now.Add(-time.Second), now)
	}
	for i := range 2 * maxRejections {
		r.refused(KeyAt{"https://" + strconv.Itoa(i), "k"}, 401, now, now)
	}
	if got := r.take(now); got != nil || len(r.found) != maxRejections {
		t.Errorf("%v are rejected, %d kept", got, len(r.found))
	}
	if r.take(now.Add(rejectionLife)); len(r.found) != 0 {
		t.Errorf("%d are kept for ever", len(r.found))
	}
}
