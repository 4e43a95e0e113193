package approver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/goleak"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/usertoken"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("away")

// memory is a feed, a gateway, a notify and a store, of one replica.
type memory struct {
	events    []alert.Event
	cursor    int
	groups    []approver.Group
	approvals map[string]*approver.Approval
	notices   []*approver.Notice
	elsewhere bool

	// present is what the gateway says of approvals, by reference; those it lacks wait.
	present map[string]approver.Present
	refuses string // member
	// unreadable is the prefix of references that can't be read; reads counts the attempts.
	unreadable string
	reads      int
	minted     int
	away       int // how many calls of notify fail
	lost       int // how many calls of notify fail after they were done
	// messages are what is with notify by key: "channel recipient subject", and updates "notification subject".
	messages map[string]string
	order    []string
}

func newMemory() *memory {
	return &memory{
		groups: []approver.Group{group()}, approvals: map[string]*approver.Approval{}, present: map[string]approver.Present{}, messages: map[string]string{},
	}
}

func (m *memory) After(_ context.Context, _, cursor string, limit int) ([]alert.Event, error) {
	done, _ := strconv.Atoi(cursor)
	return m.events[done:min(done+limit, len(m.events))], nil
}

func (m *memory) Approval(_ context.Context, _, ref string) (approver.Present, error) {
	if strings.HasPrefix(ref, m.unreadable) && m.unreadable != "" {
		m.reads++
		return approver.Present{}, errAway
	}
	if p, ok := m.present[ref]; ok {
		return p, nil
	}
	return approver.Present{State: approver.Waiting, Cents: 3}, nil
}

func (m *memory) Mint(_ context.Context, _, _, member, _ string) (string, error) {
	if member == m.refuses {
		return "", approver.ErrRefused
	}
	m.minted++
	return fmt.Sprintf("%064d", m.minted), nil
}

func (m *memory) Version(context.Context, string) (string, error) { return "v1", nil }

func (m *memory) put(key, text string) error {
	if m.away > 0 {
		m.away--
		return errAway
	}
	if before, ok := m.messages[key]; ok && before != text {
		return fmt.Errorf("another message of the key %s: %w", key, alert.ErrRefused)
	} else if !ok {
		m.messages[key] = text
		m.order = append(m.order, text[:strings.LastIndex(text, "\x00")])
	}
	if m.lost > 0 {
		m.lost--
		return errAway
	}
	return nil
}

func (m *memory) Send(_ context.Context, organization string, s approver.Message) (string, error) {
	whole, err := json.Marshal(s)
	if err == nil {
		err = m.put(s.Repeated, fmt.Sprint(organization, " ", s.Channel, " ", s.User+s.Email+s.Slack, "\x00", string(whole)))
	}
	return "n-" + s.Repeated, err
}

func (m *memory) Update(_ context.Context, organization, notification string, s approver.Message) error {
	return m.put(s.Repeated, fmt.Sprint(organization, " ", s.Body, "\x00", notification))
}

func (m *memory) Alone(ctx context.Context, do func(context.Context, string, approver.State) (string, error)) error {
	if m.elsewhere {
		return nil
	}
	done, err := do(ctx, strconv.Itoa(m.cursor), m)
	m.cursor, _ = strconv.Atoi(done)
	return err
}

func (m *memory) Groups(_ context.Context, organization string) ([]approver.Group, error) {
	if organization != "acme" {
		return nil, nil
	}
	return m.groups, nil
}

func (m *memory) Open(_ context.Context, a approver.Approval, notices []approver.Notice) error {
	if m.approvals[a.Ref] != nil {
		return nil
	}
	m.approvals[a.Ref] = &a
	for _, n := range notices {
		n.ID = fmt.Sprint("ntc_", len(m.notices))
		m.notices = append(m.notices, &n)
	}
	return nil
}

func (m *memory) Close(_ context.Context, a approver.Approval) error {
	known := m.approvals[a.Ref]
	if known == nil || known.State != approver.Waiting {
		return nil
	}
	known.State, known.DecidedBy, known.ClosedAt = a.State, a.DecidedBy, a.ClosedAt
	for _, n := range m.notices {
		if n.Approval.Ref == a.Ref {
			n.State, n.DueAt, n.Attempts = approver.After(n), a.ClosedAt, 0
		}
	}
	return nil
}

func (m *memory) Overdue(_ context.Context, now time.Time, limit int) (found []approver.Approval, _ error) {
	due := func(a approver.Approval) time.Time {
		if a.NextCheck.IsZero() {
			return a.ExpiresAt
		}
		return a.NextCheck
	}
	for _, ref := range slices.Sorted(maps.Keys(m.approvals)) {
		if a := m.approvals[ref]; a.State == approver.Waiting && a.ExpiresAt.Before(now) && !a.NextCheck.After(now) {
			found = append(found, *a)
		}
	}
	slices.SortStableFunc(found, func(a, b approver.Approval) int { return due(a).Compare(due(b)) })
	return found[:min(limit, len(found))], nil
}

func (m *memory) Postpone(_ context.Context, a approver.Approval) error {
	m.approvals[a.Ref].Checks, m.approvals[a.Ref].NextCheck = a.Checks, a.NextCheck
	return nil
}

func (m *memory) Due(_ context.Context, state string, now time.Time, limit int) (found []approver.Notice, _ error) {
	for _, n := range m.notices {
		if n.State == state && !n.DueAt.After(now) && len(found) < limit {
			n.Approval = *m.approvals[n.Approval.Ref]
			found = append(found, *n)
		}
	}
	return found, nil
}

func (m *memory) Save(_ context.Context, n *approver.Notice) error {
	i := slices.IndexFunc(m.notices, func(known *approver.Notice) bool { return known.ID == n.ID })
	m.notices[i] = n
	return nil
}

func (m *memory) Purge(context.Context, time.Time) error { return nil }

// run runs the informer for a while, and returns what reached notify since.
func (m *memory) run(t *testing.T, within time.Duration) (sent []string) {
	t.Helper()
	before := len(m.order)
	box, err := usertoken.NewBox(secret.New(strings.Repeat("p", 32)))
	if err != nil {
		t.Fatal(err)
	}
	i, err := approver.NewInformer(approver.Options{
		Feed: m, Gateway: m, Notifier: m, Store: m, Box: box, Public: &url.URL{Scheme: "https", Host: "api.example.com"},
		Log: testkit.Logger(t), Meter: noop.NewMeterProvider().Meter(""),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := i.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return m.order[before:]
}

// first are the messages of the first step of the group, second those of the second.
var (
	first = []string{
		"acme in_app ann", "acme in_app bob", "acme web_push ann", "acme web_push bob", "acme email ann@example.com", "acme slack U01",
	}
	second = []string{"acme slack C01", "acme in_app bob"}
)

func check(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, slices.Clone(got)); diff != "" && len(want)+len(got) > 0 {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// updates are that many messages that say what became of an approval.
func updates(number int, result string) []string {
	return slices.Repeat([]string{"acme This call is " + result + ".\nAsked for by: agent-3\nTool: ci/deploy"}, number)
}

func TestInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, start := newMemory(), time.Now()
		m.events = []alert.Event{pending(1, "r1", start)}
		check(t, "at once", m.run(t, 5*time.Second), first...)
		check(t, "before the second step", m.run(t, 9*time.Minute))
		check(t, "after ten minutes", m.run(t, 2*time.Minute), second...)
		m.events = append(m.events, decided(2, "r1", "approved", "ann", time.Now()))
		check(t, "decided", m.run(t, 5*time.Second), updates(8, "approved by ann")...)
		check(t, "later", m.run(t, 2*time.Hour))
	})
}

func TestInformerCancelsLaterSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, start := newMemory(), time.Now()
		m.events = []alert.Event{pending(1, "r1", start), pending(2, "r2", start)}
		m.groups[0].Steps = m.groups[0].Steps[:1]
		m.groups[0].Steps[0].Channels = []string{"email"}
		m.groups[0].Steps = append(m.groups[0].Steps, approver.Step{After: "10m", Channels: []string{"in_app"}})
		check(t, "at once", m.run(t, 5*time.Second), "acme email ann@example.com", "acme email ann@example.com")
		m.events = append(m.events, decided(3, "r1", "denied", "bob", time.Now()))
		check(t, "decided", m.run(t, 5*time.Second), updates(1, "denied by bob")...)
		check(t, "the other's second step", m.run(t, 20*time.Minute), "acme in_app ann", "acme in_app bob")
		m.present["r2"] = approver.Present{State: approver.Expired}
		check(t, "the other expires", m.run(t, time.Hour), updates(3, "expired")...)
	})
}

// Messages of an approval that another one takes the place of say at once that its time is up.
func TestInformerOfSuperseded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.events = []alert.Event{pending(1, "r1", time.Now())}
		m.groups[0].Steps = m.groups[0].Steps[:1]
		m.run(t, 5*time.Second)
		e := pending(2, "r1", time.Now())
		e.Type = "switchyard.approval.superseded"
		m.events = append(m.events, e)
		check(t, "superseded", m.run(t, 5*time.Second), updates(6, "expired")...)
		check(t, "when it would have expired", m.run(t, 2*time.Hour))
	})
}

// What the gateway says decides, not this clock: a decision of the last moment may be on its way.
func TestInformerAsksBeforeItCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.events = []alert.Event{pending(1, "r1", time.Now())}
		m.groups[0].Steps = m.groups[0].Steps[:1]
		m.run(t, 5*time.Second)
		check(t, "still waiting at the gateway", m.run(t, 2*time.Hour))
		m.present["r1"] = approver.Present{State: approver.Approved, DecidedBy: "ann"}
		check(t, "approved", m.run(t, 2*time.Minute), updates(6, "approved by ann")...)
	})
}

// A replica that is lost between its steps, or whose calls have no answer, costs no message and makes none twice.
func TestInformerRepeats(t *testing.T) {
	for name, fail := range map[string]func(*memory){
		"notify is away":         func(m *memory) { m.away = 9 },
		"answers of notify lost": func(m *memory) { m.lost = 9 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.events = []alert.Event{pending(1, "r1", time.Now())}
				m.groups[0].Steps = m.groups[0].Steps[:1]
				fail(m)
				sent := m.run(t, time.Minute)
				slices.Sort(sent)
				check(t, "sent", sent, slices.Sorted(slices.Values(first))...)
				fail(m)
				m.events = append(m.events, decided(2, "r1", "approved", "ann", time.Now()))
				check(t, "updated", m.run(t, time.Minute), updates(6, "approved by ann")...)
				if m.minted != 6 {
					t.Errorf("%d tokens for 6 messages", m.minted)
				}
			})
		})
	}
}

func TestInformerOfWhatIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*memory)
		want   []string
	}{
		"a member whose call it is": {func(m *memory) { m.refuses = "ann" }, []string{"acme in_app bob", "acme web_push bob"}},
		"a decided one":             {func(m *memory) { m.present["r1"] = approver.Present{State: approver.Denied, DecidedBy: "bob"} }, nil},
		"no group":                  {func(m *memory) { m.groups = nil }, nil},
		"another's":                 {func(m *memory) { m.events[0].Organization = "other" }, nil},
		"an expired one":            {func(m *memory) { m.events[0].Data["expires_at"] = time.Now().Format(time.RFC3339) }, nil},
		"another replica is at it":  {func(m *memory) { m.elsewhere = true }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.events = []alert.Event{pending(1, "r1", time.Now())}
				m.groups[0].Steps = m.groups[0].Steps[:1]
				tt.change(m)
				check(t, "sent", m.run(t, 5*time.Second), tt.want...)
			})
		})
	}
}

// Who has left the group, or its channel, gets no later step.
func TestInformerOfMembersWhoLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.groups[0].Steps = []approver.Step{{After: "1m", Channels: []string{"email", "in_app"}}}
		m.events = []alert.Event{pending(1, "r1", time.Now())}
		check(t, "before", m.run(t, 30*time.Second))
		m.groups[0].Members = []approver.Member{{User: "ann"}}
		check(t, "after", m.run(t, time.Minute), "acme in_app ann")
	})
}

// Overdue approvals that the gateway can't show don't keep others open, however many they are, and are read less and
// less often.
func TestInformerPassesOverWhatItCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.groups = []approver.Group{{Name: "default", Members: []approver.Member{{User: "ann"}}}}
		for n := range 60 {
			m.events = append(m.events, pending(n+1, fmt.Sprintf("a%02d", n), time.Now()))
		}
		m.events = append(m.events, pending(61, "z", time.Now()))
		m.run(t, 5*time.Second)
		time.Sleep(time.Hour)
		m.unreadable, m.present["z"] = "a", approver.Present{State: approver.Denied, DecidedBy: "ann"}
		m.run(t, 10*time.Second)
		if got := m.approvals["z"]; got.State != approver.Denied {
			t.Errorf("the approval behind those that can't be read is %s", got.State)
		}
		m.run(t, 24*time.Hour)
		if most := 60 * (24 + 12); m.reads > most {
			t.Errorf("%d reads in a day, want %d at most", m.reads, most)
		}
		m.unreadable = ""
		for n := range 60 {
			m.present[fmt.Sprintf("a%02d", n)] = approver.Present{State: approver.Expired}
		}
		m.run(t, 2*time.Hour)
		for ref, a := range m.approvals {
			if a.State == approver.Waiting {
				t.Errorf("%s is open for ever", ref)
			}
		}
	})
}
