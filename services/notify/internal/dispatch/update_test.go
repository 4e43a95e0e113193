package dispatch_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch"
)

// teller notes which messages it is given, and answers by a script for each.
type teller struct {
	takes   time.Duration
	answers map[uuid.UUID][]channel.Outcome

	mu   sync.Mutex
	said []string
	name map[uuid.UUID]string
}

func (x *teller) Deliver(_ context.Context, t channel.Task) channel.Outcome {
	time.Sleep(x.takes)
	x.mu.Lock()
	defer x.mu.Unlock()
	answers := x.answers[t.Notification]
	answer := channel.Delivered(200)
	if len(answers) > 0 {
		answer, x.answers[t.Notification] = answers[0], answers[1:]
	}
	text := x.name[t.Notification] + " " + string(answer.Kind)
	if t.Update {
		text += " at " + t.Reference
	}
	x.said = append(x.said, text)
	return answer
}

// TestUpdatesTakeTurns checks that an update waits for the message that is being sent or that another service has, goes
// instead of one that is refused meanwhile, and knows where an earlier one is.
func TestUpdatesTakeTurns(t *testing.T) {
	at := channel.Delivered(200)
	at.Reference = "place"
	handed := channel.HandedOver("dlv", 3*time.Second)
	tests := map[string]struct {
		first []channel.Outcome
		want  []string
	}{
		"delivered": {[]channel.Outcome{at}, []string{"first ok", "update ok at place"}},
		"refused":   {[]channel.Outcome{channel.Retry(channel.ClassRate, 429, 0)}, []string{"first retry_after", "update ok at "}},
		"failed":    {[]channel.Outcome{channel.Failed("x", 400, "")}, []string{"first permanent", "update ok at "}},
		"handed over": {[]channel.Outcome{handed, handed, handed, handed, handed, at}, []string{
			"first handed", "first handed", "first handed", "first handed", "first handed", "first ok", "update ok at place",
		}},
		"lost answer":   {[]channel.Outcome{channel.Lost(channel.ClassTimeout)}, []string{"first unknown", "update ok at "}},
		"already there": {nil, []string{"first ok", "update ok at "}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				first := w.queue.Add(channel.Slack, "", time.Hour)
				x := &teller{takes: 2 * time.Second, answers: map[uuid.UUID][]channel.Outcome{first: tt.first}, name: map[uuid.UUID]string{first: "first"}}
				w.o.Transport = x
				accepted := time.AfterFunc(time.Second, func() {
					x.mu.Lock()
					defer x.mu.Unlock()
					x.name[w.queue.Update(first)] = "update"
				})
				defer accepted.Stop()
				w.run(t, 2*time.Minute)
				if diff := cmp.Diff(tt.want, x.said); diff != "" {
					t.Errorf("said (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestUpdateOfALostMessage checks that a message whose sender is gone is not sent again once it has an update.
func TestUpdateOfALostMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		first := w.queue.Add(channel.Slack, "", time.Hour)
		if _, err := w.queue.Take(t.Context(), dispatch.Claim{Channel: channel.Slack, Count: 1, Lease: 5 * time.Second}); err != nil {
			t.Fatal(err)
		}
		update := w.queue.Update(first)
		x := &teller{name: map[uuid.UUID]string{first: "first", update: "update"}}
		w.o.Transport = x
		w.run(t, time.Minute)
		if diff := cmp.Diff([]string{"update ok at "}, x.said); diff != "" {
			t.Errorf("said (-want +got):\n%s", diff)
		}
		if s := w.queue.State(first); !s.Ended || len(s.Tries) != 1 || s.Tries[0].Outcome.Class != channel.ClassLease {
			t.Errorf("the first message: %+v", s)
		}
		if s := w.queue.State(update); !s.Delivered || !s.Doubled {
			t.Errorf("the update: %+v", s)
		}
	})
}
