package event_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/operations/event"
	"switchyard.dev/services/platform/houseevent/houseeventtest"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledgerRows is a ledger with that many rows.
type ledgerRows int

func (l *ledgerRows) Compare(_ context.Context, limit int) (int, error) {
	n := min(limit, int(*l))
	*l -= ledgerRows(n)
	return n, nil
}

func TestBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := ledgerRows(4500)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if err := event.NewBudgets(&rows, testkit.Logger(t)).Run(ctx); err != nil || rows != 0 {
			t.Errorf("%d rows left, %v", rows, err)
		}
	})
}

func TestNotices(t *testing.T) {
	cutoff := time.Date(2026, 12, 11, 0, 0, 0, 0, time.UTC)
	model := func(deprecated bool, cutoff time.Time) event.Model {
		return event.Model{Provider: "openai", Model: "o3", Successor: "gpt-6", Deprecated: deprecated, Cutoff: cutoff}
	}
	for name, tt := range map[string]struct {
		model event.Model
		now   time.Time
		want  string
	}{
		"deprecated without a cutoff": {model(true, time.Time{}), cutoff, "deprecated"},
		"deprecated, long before":     {model(true, cutoff), cutoff.AddDate(0, 0, -31), "deprecated"},
		"30 days":                     {model(true, cutoff), cutoff.AddDate(0, 0, -30), "deprecated, retiring 2026-12-11 30"},
		"8 days":                      {model(true, cutoff), cutoff.AddDate(0, 0, -8), "deprecated, retiring 2026-12-11 30"},
		"7 days, not deprecated":      {model(false, cutoff), cutoff.AddDate(0, 0, -7), "retiring 2026-12-11 7"},
		"an hour":                     {model(false, cutoff), cutoff.Add(-time.Hour), "retiring 2026-12-11 1"},
		"retired":                     {model(true, cutoff), cutoff, ""},
	} {
		var got []string
		for _, r := range event.Notices(tt.model, tt.now) {
			if r.Subject != "model/openai/o3" || r.Data["successor"] != "gpt-6" || r.Organization != "" {
				t.Errorf("%s: %+v", name, r)
			}
			data, err := json.Marshal(r.Data)
			if err != nil {
				t.Fatal(err)
			}
			houseeventtest.Check(t, r.Type, data)
			got = append(got, strings.TrimSpace(strings.TrimPrefix(r.Type, "switchyard.model.")+" "+r.Transition))
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("%s: %q, want %q", name, text, tt.want)
		}
	}
}

// observerStore keeps what is recorded.
type observerStore struct {
	circuits, reports int
}

func (s *observerStore) Circuits(_ context.Context, open []event.Circuit, _ time.Duration) error {
	s.circuits += len(open)
	return nil
}

func (s *observerStore) Report(_ context.Context, reports []event.Report) error {
	s.reports += len(reports)
	return nil
}

func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &observerStore{}
		w := event.NewObserver(store, func() []event.Circuit { return []event.Circuit{{Provider: "openai"}} },
			func(time.Time) []event.Model {
				return []event.Model{{Provider: "openai", Model: "o3", Deprecated: true}}
			}, testkit.Logger(t))
		for _, run := range []func(context.Context) error{w.RunCircuits, w.RunModels} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			if err := run(ctx); err != nil {
				t.Error(err)
			}
			cancel()
		}
		if store.circuits != 2 || store.reports != 1 {
			t.Errorf("%d circuits and %d reports in five seconds, want 2 and 1", store.circuits, store.reports)
		}
	})
}

// credentialStore keeps what is recorded.
type credentialStore struct {
	refused, taken, pages, forgotten int
	aged                             []event.Key
	days                             int
	after                            event.Credential
}

func (s *credentialStore) Refuse(_ context.Context, refused []event.Refused) error {
	s.refused += len(refused)
	return nil
}

func (s *credentialStore) Recover(_ context.Context, taken []event.Taken) error {
	s.taken += len(taken)
	return nil
}

func (s *credentialStore) Failing(context.Context, int) ([]event.Credential, error) {
	return []event.Credential{{Provider: "openai"}}, nil
}

func (s *credentialStore) Age(_ context.Context, keys []event.Key, days int) error {
	s.aged, s.days = keys, days
	return nil
}

func (s *credentialStore) ReportRotations(_ context.Context, after event.Credential, limit int) (event.Credential, int, error) {
	if s.pages++; s.pages > 2 {
		s.after = after
		return after, 0, nil
	}
	return event.Credential{Organization: strconv.Itoa(s.pages)}, limit, nil
}

func (s *credentialStore) Forget(context.Context) error {
	s.forgotten++
	return nil
}

// madeCalls is what calls have shown.
type madeCalls struct{ watched []event.Credential }

func (*madeCalls) Take() ([]event.Refused, []event.Taken) {
	return []event.Refused{{Status: 401}}, []event.Taken{{}, {}}
}

func (c *madeCalls) Watch(failing []event.Credential) { c.watched = failing }

func TestCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := &credentialStore{}, &madeCalls{}
		c := event.NewCredentials(store, calls, func() []event.Key { return []event.Key{{Provider: "openai"}} }, 90, testkit.Logger(t))
		for _, run := range []func(context.Context) error{c.RunFailing, c.RunRotations} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			if err := run(ctx); err != nil {
				t.Error(err)
			}
			cancel()
		}
		if store.refused != 2 || store.taken != 4 || len(calls.watched) != 1 {
			t.Errorf("in five seconds %d refused and %d taken are recorded and %v watched, want 2, 4 and one", store.refused, store.taken, calls.watched)
		}
		if len(store.aged) != 1 || store.days != 90 || store.pages != 3 || store.after.Organization != "2" || store.forgotten != 1 {
			t.Errorf("rotations: %+v", store)
		}
	})
}
