package dispatch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
)

// byLane fails the messages of some lanes and answers the others with 200.
type byLane struct {
	fail  channel.Outcome
	takes time.Duration

	mu    sync.Mutex
	fails map[uuid.UUID]bool
	tried int // attempts that failed
}

func (x *byLane) Deliver(ctx context.Context, t channel.Task) channel.Outcome {
	x.mu.Lock()
	fails := x.fails[t.Notification]
	if fails {
		x.tried++
	}
	x.mu.Unlock()
	if !fails {
		return channel.Delivered(200)
	}
	select {
	case <-time.After(x.takes):
	case <-ctx.Done():
	}
	return x.fail
}

// A URL, channel or device that fails doesn't delay messages to others of its host.
func TestFailingLaneDelaysNoOther(t *testing.T) {
	failed := func(o channel.Outcome, host bool) channel.Outcome {
		o.HostFailed, o.LaneFailed = host, !host
		return o
	}
	for name, x := range map[string]*byLane{
		"answers 500": {fail: failed(channel.Retry(channel.ClassServer, 500, 0), false)},
		"hangs":       {fail: failed(channel.Lost(channel.ClassTimeout), true), takes: 10 * time.Second},
		"resets":      {fail: failed(channel.Retry(channel.ClassReset, 0, 0), true)},
	} {
		for _, devices := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", devices: ", devices), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					w.o.Transport, w.o.Limiter, w.o.InFlight = x, nil, 64
					x.fails, x.tried = make(map[uuid.UUID]bool), 0
					add := func(lane string) uuid.UUID {
						if devices {
							return w.queue.AddDevice(uuid.NewSHA1(uuid.Nil, []byte(lane)), time.Hour)
						}
						return w.queue.Add(channel.Slack, lane, time.Hour)
					}
					good := add("good")
					w.run(t, time.Second)
					w.wantLog(t, good, "delivered", "1 ok ")
					const bad = 3
					for i := range 30 {
						for lane := range bad {
							id := add(fmt.Sprint("bad-", lane))
							x.mu.Lock()
							x.fails[id] = true
							x.mu.Unlock()
						}
						good, other := add("good"), add(fmt.Sprint("other-", i))
						w.run(t, 400*time.Millisecond)
						w.wantLog(t, good, "delivered", "1 ok ")
						w.wantLog(t, other, "delivered", "1 ok ")
					}
					w.run(t, time.Minute)
					if x.tried > bad*30 {
						t.Errorf("%d attempts of lanes that fail", x.tried)
					}
				})
			})
		}
	}
}
