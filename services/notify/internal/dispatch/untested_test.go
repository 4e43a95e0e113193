package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/send"
)

// deliverFunc is a transport.
type deliverFunc func(t channel.Task) channel.Outcome

func (f deliverFunc) Deliver(_ context.Context, t channel.Task) channel.Outcome { return f(t) }

func unreached(o channel.Outcome) channel.Outcome {
	o.HostFailed = true
	return o
}

// A probe of which nothing was sent leaves the host's circuit open, and another message probes.
func TestUnsentProbeClosesNothing(t *testing.T) {
	for name, probe := range map[string]channel.Outcome{
		"device that is gone": channel.Unsent(channel.Failed("not_registered", 0, "")),
		"no key":              channel.Unsent(channel.Denied("vapid_key_missing", 0, false)),
		"not configured":      channel.Unsent(channel.Retry(channel.ClassMissing, 0, time.Minute)),
		"target not allowed":  channel.Unsent(channel.Failed(channel.ClassTarget, 0, "")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				down := unreached(channel.Retry(channel.ClassConnect, 0, 0))
				w := newWorld(down, down, down, probe, down, channel.Delivered(200))
				w.x.takes = 500 * time.Millisecond
				for range 3 {
					w.queue.Add(channel.Slack, "", time.Hour)
				}
				w.run(t, 15*time.Second)
				w.sentAt(t, 0, 0, 0, 10.5, 11.5)
			})
		})
	}
}

// sealedFor opens all work except one owner's.
type sealedFor struct{ owner string }

func (s sealedFor) Open(sealed []byte, owner string) ([]byte, error) {
	if owner == s.owner {
		return nil, errors.New("another key")
	}
	return sealed, nil
}

// A message that can't be opened doesn't keep another one from probing.
func TestUnreadableProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := unreached(channel.Failed(channel.ClassConnect, 0, ""))
		w := newWorld(down, down, down, channel.Delivered(200))
		for range 3 {
			w.queue.Add(channel.Slack, "", time.Hour)
		}
		w.run(t, 10*time.Second)
		w.o.Opener = sealedFor{send.Owner(w.queue.Add(channel.Slack, "", time.Hour), channel.Slack)}
		w.run(t, time.Second)
		good := w.queue.Add(channel.Slack, "", time.Hour)
		w.run(t, time.Second)
		w.wantLog(t, good, "delivered", "1 ok ")
	})
}

// A message that finds no place waits, which is no attempt.
func TestCrowdedIsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(channel.Crowded(2*time.Second), channel.Crowded(3*time.Second), channel.Delivered(200))
		id := w.queue.Add(channel.Slack, "", time.Hour)
		w.run(t, time.Minute)
		w.sentAt(t, 0, 2, 5)
		w.wantLog(t, id, "delivered", "1 ok ")
	})
}

// Messages that find no place at a dead host don't keep its circuit closed.
func TestCrowdAtADeadHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.o.Limiter, w.o.InFlight = nil, 16
		others := make(map[uuid.UUID]bool)
		var tried atomic.Int32
		w.o.Transport = deliverFunc(func(t channel.Task) channel.Outcome {
			if others[t.Notification] {
				return channel.Crowded(250 * time.Millisecond)
			}
			tried.Add(1)
			return unreached(channel.Lost(channel.ClassTimeout))
		})
		for i := range 4 {
			others[w.queue.Add(channel.Slack, fmt.Sprint("others-", i), time.Hour)] = true
			w.queue.Add(channel.Slack, fmt.Sprint("dead-", i), time.Hour)
		}
		w.run(t, 9*time.Second)
		if got := tried.Load(); got > 4 {
			t.Errorf("%d attempts at a dead host, want at most 4 before its circuit opens", got)
		}
	})
}
