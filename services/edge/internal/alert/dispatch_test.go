package alert_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/metric/noop"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/platform/testkit"
)

// failing returns a notify that fails for the notifications of these numbers, counted from 0.
func failing(numbers ...int) func(context.Context, alert.Notification) error {
	count := -1
	return func(context.Context, alert.Notification) error {
		if count++; slices.Contains(numbers, count) {
			return errors.New("away")
		}
		return nil
	}
}

// dispatch applies rules for a while, and returns "organization channel title" of what was sent.
func (m *memory) dispatch(t *testing.T, within time.Duration) (sent []string) {
	t.Helper()
	d, err := alert.NewDispatcher(m, m, m, testkit.Logger(t), noop.NewMeterProvider().Meter(""))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := d.Run(ctx); err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, s := range m.sent {
		at := strings.LastIndex(s, " ")
		if keys[s[at:]] {
			t.Errorf("key %s was used twice", s[at:])
		}
		keys[s[at:]], sent = true, append(sent, s[:at])
	}
	return sent
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func budget(number int, organization, subject string, percent float64, after time.Duration) alert.Event {
	return alert.Event{
		Cursor: strconv.Itoa(number), ID: fmt.Sprint("e", number), Organization: organization, Type: "switchyard.budget.threshold", Subject: subject,
		Data: map[string]any{"percent": percent, "budget": "key", "subject": subject}, RecordedAt: began.Add(after),
	}
}

func TestDispatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory([]alert.Rule{rule()},
			budget(1, "acme", "k1", 80, 0),
			budget(2, "acme", "k1", 50, 0),              // another percentage
			budget(3, "other", "k1", 80, 0),             // of another organization
			budget(4, "acme", "k1", 80, 59*time.Minute), // too soon
			budget(5, "acme", "k2", 80, 59*time.Minute), // another subject
			budget(6, "acme", "k1", 80, 61*time.Minute), // late enough
			alert.Event{Cursor: "7", ID: "e7", Organization: "acme", Type: "switchyard.run.exhausted"},
		)
		m.notify = failing(0, 1, 2)
		want := []string{
			"acme in_app 80 % of a budget is spent (key k1)", "acme web_push 80 % of a budget is spent (key k1)",
			"acme in_app 80 % of a budget is spent (key k2)", "acme web_push 80 % of a budget is spent (key k2)",
			"acme in_app 80 % of a budget is spent (key k1)", "acme web_push 80 % of a budget is spent (key k1)",
		}
		if diff := cmp.Diff(want, m.dispatch(t, 10*time.Second)); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		m.done(t, 7, "acme")
		if sent := m.dispatch(t, 10*time.Second); len(sent) != len(want) {
			t.Errorf("events are sent again: %q", sent)
		}
	})
}

// An event whose second rule failed continues there: the first rule's targets are not notified again.
func TestInterruptedEventContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := rule(), rule()
		second.Name = "second"
		m := newMemory([]alert.Rule{first, second}, budget(1, "acme", "k1", 80, 0))
		m.notify = failing(2)
		if sent := m.dispatch(t, 5*time.Second); len(sent) != 4 {
			t.Errorf("sent %q, want each of two rules' targets once", sent)
		}
		m.done(t, 1, "acme")
	})
}

// A channel that notify refuses keeps neither the others nor later events from being notice.
func TestDispatchOfRefusedChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory([]alert.Rule{rule()}, budget(1, "acme", "k1", 80, 0), budget(2, "acme", "k2", 80, 0))
		m.notify = func(_ context.Context, n alert.Notification) error {
			if n.To.Channel == alert.InApp {
				return fmt.Errorf("no such channel: %w", alert.ErrRefused)
			}
			return nil
		}
		if sent := m.dispatch(t, 3*time.Second); len(sent) != 2 {
			t.Errorf("sent %q, want both pushes", sent)
		}
		m.done(t, 2, "acme")
	})
}

func TestDispatchElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory([]alert.Rule{rule()}, budget(1, "acme", "k1", 80, 0))
		m.elsewhere = true
		if sent := m.dispatch(t, 3*time.Second); len(sent) != 0 {
			t.Errorf("sent %q while another replica applies rules", sent)
		}
	})
}

// slow takes the time of a call over the network for each notification.
func slow(context.Context, alert.Notification) error {
	time.Sleep(5 * time.Millisecond)
	return nil
}

// flood is an organization with as many rules and targets as are allowed, and number events that all rules select.
func (m *memory) flood(organization string, number int) {
	for i := range alert.MaxRules {
		to := slices.Repeat([]alert.Target{{Channel: alert.InApp, User: "ada"}}, alert.MaxTargets)
		r := alert.Rule{Name: fmt.Sprint("rule ", i), Types: []string{"switchyard.*"}, To: to}
		m.rules[organization] = append(m.rules[organization], r)
	}
	for range number {
		at := len(m.events) + 1
		m.events = append(m.events, budget(at, organization, fmt.Sprint("k", at), 80, 0))
	}
}

// An organization whose events take hours delays the alerts of another one by a turn, not by its backlog.
func TestAlertsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory([]alert.Rule{rule()})
		m.notify = slow
		m.flood("busy", 5000)
		m.events = append(m.events, budget(len(m.events)+1, "acme", "k1", 80, 0))
		begin := time.Now()
		m.dispatch(t, 10*time.Second)
		if wait := m.at["acme"].Sub(begin); m.at["acme"].IsZero() || wait > 2*time.Second {
			t.Errorf("the other organization is notified after %s", wait)
		}
		if sent := len(m.sent); sent < 1500 {
			t.Errorf("%d notifications in nine seconds: turns leave notify idle", sent)
		}
		// An organization has one record, however many of its events wait.
		if len(m.progress) != 2 || m.progress["busy"].DueAt.IsZero() {
			t.Errorf("progress %+v, want the busy organization to wait", m.progress)
		}
	})
}

// An event that takes longer than a turn continues in the next turns, even if another replica runs them.
func TestEventTakesManyTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(nil)
		m.notify = slow
		m.flood("busy", 1)
		if sent := m.dispatch(t, 2*time.Second); len(sent) == 0 || len(sent) >= alert.MaxRules*alert.MaxTargets {
			t.Fatalf("%d notifications in the first second", len(sent))
		}
		if sent := m.dispatch(t, 5*time.Second); len(sent) != alert.MaxRules*alert.MaxTargets {
			t.Errorf("%d notifications, want one for each rule and target", len(sent))
		}
		m.done(t, 1, "busy")
	})
}

// An organization whose notifications fail, however they do, is tried less and less often and delays no other one.
func TestFailingOrganizationDelaysOnlyItself(t *testing.T) {
	for name, tt := range map[string]struct {
		fail func(ctx context.Context) error
		most time.Duration // until the other organization is notified
	}{
		"an error": {func(context.Context) error { return errors.New("answered 403") }, 2 * time.Second},
		"a panic":  {func(context.Context) error { panic("a defect") }, 2 * time.Second},
		"no answer": {func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory([]alert.Rule{rule()},
					budget(1, "bad", "k1", 80, 0), budget(2, "acme", "k1", 80, 0), budget(3, "bad", "k2", 80, 0))
				m.rules["bad"] = []alert.Rule{rule()}
				begin, tries := time.Now(), 0
				m.notify = func(ctx context.Context, n alert.Notification) error {
					if n.Organization != "bad" {
						return nil
					}
					tries++
					return tt.fail(ctx)
				}
				sent := m.dispatch(t, time.Hour)
				if wait := m.at["acme"].Sub(begin); len(sent) != 2 || wait > tt.most {
					t.Errorf("sent %q, the first after %s, want the other organization's within %s", sent, wait, tt.most)
				}
				m.done(t, 2, "acme")
				if tries < 40 || tries > 70 {
					t.Errorf("%d tries in an hour, want one each minute", tries)
				}
				m.notify = nil
				if sent := m.dispatch(t, 2*time.Minute); len(sent) != 6 {
					t.Errorf("sent %q, want all after the recovery", sent)
				}
				m.done(t, 3, "bad")
			})
		})
	}
}
