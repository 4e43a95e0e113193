package dispatch_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/push"
	"switchyard.dev/services/notify/internal/webpush"
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
	for name, x := range map[string]*byLane{
		"answers 500": {fail: channel.Retry(channel.ClassServer, 500, 0)},
		"answers 429": {fail: channel.Retry(channel.ClassRate, 429, 0)},
		"hangs":       {fail: unreached(channel.Lost(channel.ClassTimeout)), takes: 10 * time.Second},
		"resets":      {fail: unreached(channel.Retry(channel.ClassReset, 0, 0))},
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

// temporary returns, by name, the outcomes of answers after which a message is tried again.
func temporary(wait time.Duration) map[string]channel.Outcome {
	outcomes := make(map[string]channel.Outcome)
	for _, status := range []int{408, 425, 429, 500, 502, 503, 504} {
		class := channel.ClassClient
		switch {
		case status == 429:
			class = channel.ClassRate
		case status >= 500:
			class = channel.ClassServer
		}
		answer := channel.Answer{Status: status, Class: class, Sent: true, After: wait}
		outcomes[fmt.Sprint("webhook ", status)] = answer.Outcome()
	}
	for _, status := range []int{406, 408, 425, 429, 500, 503} {
		answer := webpush.Read(status, http.Header{}, nil, time.Now())
		answer.RetryAfter = wait
		outcomes[fmt.Sprint("web push ", status)] = push.Outcome(answer)
	}
	return outcomes
}

// A lane whose receiver asks to come back later pauses after as many answers in a row as after server errors.
func TestTemporaryRefusalsPauseALane(t *testing.T) {
	for name, refusal := range temporary(0) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(refusal)
				w.o.Limiter, w.o.InFlight = nil, 1
				for range 30 {
					w.queue.Add(channel.Webhook, "lane", time.Hour)
				}
				w.o.Channel = channel.Webhook
				w.run(t, 9*time.Second)
				w.sentAt(t, 0, 0, 0)
			})
		})
	}
}

// A temporary refusal of a probe reopens the circuit for the time in Retry-After, at most MaxPause.
func TestRefusedProbePausesALane(t *testing.T) {
	for name, refusal := range temporary(time.Hour) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broken := channel.Retry(channel.ClassServer, 500, 0)
				w := newWorld(broken, broken, broken, refusal, channel.Delivered(200))
				w.o.Limiter, w.o.InFlight = nil, 1
				for range 5 {
					w.queue.Add(channel.Webhook, "lane", 3*time.Hour)
				}
				w.o.Channel = channel.Webhook
				w.run(t, 75*time.Second)
				w.sentAt(t, 0, 0, 0, 10, 70, 70, 70, 70)
			})
		})
	}
}
