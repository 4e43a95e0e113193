package dispatch_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
)

// byOrganization answers each organization as it is told.
type byOrganization struct {
	answer func(organization string) channel.Outcome
	takes  func(organization string) time.Duration

	mu    sync.Mutex
	under map[string]int
	most  map[string]int
}

func (x *byOrganization) Deliver(ctx context.Context, t channel.Task) channel.Outcome {
	x.mu.Lock()
	x.under[t.Organization]++
	x.most[t.Organization] = max(x.most[t.Organization], x.under[t.Organization])
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.under[t.Organization]--
	}()
	select {
	case <-time.After(x.takes(t.Organization)):
		return x.answer(t.Organization)
	case <-ctx.Done():
		return channel.Lost(channel.ClassTimeout)
	}
}

func of(organizations map[string]time.Duration, answer func(string) channel.Outcome) *byOrganization {
	return &byOrganization{
		answer: answer, takes: func(organization string) time.Duration { return organizations[organization] },
		under: map[string]int{}, most: map[string]int{},
	}
}

// What comes of one organization's requests to an origin holds up no other's,
// where the origin is the customers' own. The operator's own is one for all.
func TestBreakersOfOrganizations(t *testing.T) {
	for name, tt := range map[string]struct {
		own  bool
		want string
	}{"customers' origin": {true, "delivered"}, "operator's origin": {false, "open"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.o.OwnBreakers = tt.own
				w.o.Transport = of(nil, func(organization string) channel.Outcome {
					if organization == "mallory" {
						o := channel.Retry(channel.ClassServer, 500, 0)
						o.HostFailed = true
						return o
					}
					return channel.Delivered(200)
				})
				for range 3 { // as many as open it
					w.queue.AddOf("mallory", channel.Slack, "", time.Hour)
				}
				w.run(t, time.Second)
				good := w.queue.AddOf("acme", channel.Slack, "", time.Hour)
				w.run(t, 5*time.Second)
				log := []string{"1 ok "}
				if tt.want == "open" {
					log = nil
				}
				w.wantLog(t, good, tt.want, log...)
			})
		})
	}
}

// An organization whose receivers hang has half of the slots at most: another's
// messages go out at once, however many wait before them.
func TestShareOfOrganizations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.o.Share = w.o.InFlight / 2
		x := of(map[string]time.Duration{"mallory": 10 * time.Second}, func(string) channel.Outcome { return channel.Delivered(200) })
		w.o.Transport = x
		var slow, good []uuid.UUID
		for range 20 {
			slow = append(slow, w.queue.AddOf("mallory", channel.Slack, "", time.Hour))
		}
		for range 20 {
			good = append(good, w.queue.AddOf("acme", channel.Slack, "", time.Hour))
		}
		w.run(t, 5*time.Second)
		for _, id := range good {
			w.wantLog(t, id, "delivered", "1 ok ")
		}
		if n := x.most["mallory"]; n != w.o.Share {
			t.Errorf("%d attempts of the slow organization at a time, want %d", n, w.o.Share)
		}
		w.run(t, 5*time.Minute)
		for _, id := range slow {
			w.wantLog(t, id, "delivered", "1 ok ")
		}
	})
}
