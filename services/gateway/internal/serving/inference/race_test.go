package inference

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// slowReservation takes its time for every reservation but the first.
type slowReservation struct{ *fakeAdmission }

func (s slowReservation) Admit(ctx context.Context, organization, id string, key keyterm.Terms) (admission.Grant, error) {
	g, err := s.fakeAdmission.Admit(ctx, organization, id, key)
	return slowGrant{g.(*fakeGrant)}, err //nolint:forcetypeassert // fakeAdmission returns no other type.
}

type slowGrant struct{ *fakeGrant }

func (g slowGrant) Reserve(ctx context.Context, id uuid.UUID, worst price.Pico) error {
	if len(g.reserved) > 0 {
		time.Sleep(time.Second)
	}
	return g.fakeGrant.Reserve(ctx, id, worst)
}

// A first call that answers while the hedge is still being reserved has no hedge: no second call is made, and the
// reservation is released.
func TestAnswerWhileAHedgeIsReserved(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := setupHedged(t, vendorOf("a", after(tardy, "a")), vendorOf("b", after(quick, "b")))
			d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
			b.Admission = slowReservation{d}
			got, route, err := serveHedged(t.Context(), b, request(), stream)
			if err != nil || got != "a" || route.Attempts != 1 || route.Hedged != (provider.Target{}) {
				t.Errorf("%q with %+v, %v", got, route, err)
			}
			if calls, _ := b.scripts["b"].count(); calls != 0 {
				t.Errorf("b was called %d times", calls)
			}
			checkRows(t, b, "a completed reported")
			if len(d.reserved) != 2 {
				t.Fatalf("%d reservations, want 2", len(d.reserved))
			}
			checkSettled(t, b, d)
		})
	}
}

// Where both calls answer at the same moment one of them serves, and what the other has reported is billed.
func TestBothCallsAnswer(t *testing.T) {
	for stream, state := range map[bool]string{false: "reported", true: "estimated"} {
		synctest.Test(t, func(t *testing.T) {
			b := setupHedged(t, vendorOf("a", after(tardy, "a")), vendorOf("b", after(quick, "b")))
			d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
			b.Admission, b.Memory = d, memory.New(1<<20, 50)
			got, route, err := serveHedged(t.Context(), b, request(), stream)
			if err != nil || route.Attempts != 2 || route.Hedged.Provider == got {
				t.Errorf("%q with %+v, %v", got, route, err)
			}
			rows := []string{got + " completed reported", route.Hedged.Provider + " interrupted " + state}
			slices.Sort(rows)
			checkRows(t, b, strings.Join(rows, ", "))
			checkSettled(t, b, d)
			if held := b.Memory.Held(); held != 0 {
				t.Errorf("%d bytes are held after the request", held)
			}
		})
	}
}

// The record of a request has both calls in the order in which they were made, and each has a span.
func TestHedgeIsRecorded(t *testing.T) {
	for first, c := range map[time.Duration]struct{ tries, served string }{
		tardy:   {"a ok 150ms , b cancelled 50ms hedged", "a"},
		hanging: {"a cancelled 200ms hedged, b ok 100ms ", "b"},
	} {
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				second := hanging
				if first == hanging {
					second = 2 * quick
				}
				b := setupHedged(t, vendorOf("a", after(first, "a")), vendorOf("b", after(second, "b")))
				w := &watcher{}
				b.Recorder = w
				if _, _, err := serveHedged(t.Context(), b, request(), stream); err != nil {
					t.Fatal(err)
				}
				var tries []string
				for _, try := range w.seen.Tries {
					tries = append(tries, fmt.Sprintf("%s %s %s %s", try.Provider, try.Outcome, try.Duration, try.Code))
				}
				if diff := cmp.Diff(c.tries, strings.Join(tries, ", ")); diff != "" {
					t.Errorf("stream %t (-want +got):\n%s", stream, diff)
				}
				if w.seen.Served.Provider != c.served || w.seen.Report.Provider != c.served || w.seen.Status != trace.StatusOK {
					t.Errorf("served by %s, billed to %s, %s", w.seen.Served, w.seen.Report.Provider, w.seen.Status)
				}
				for _, e := range b.ledger.entries {
					if (e.ID == w.seen.ID) != (e.Outcome == ledger.OutcomeCompleted) {
						t.Errorf("the record has the id %s, the %s row of %s has %s", w.seen.ID, e.Outcome, e.Provider, e.ID)
					}
				}
			})
		}
	}
}

// watcher keeps the last observation.
type watcher struct{ seen *trace.Observation }

func (*watcher) Observe(string) (int, bool) { return 0, true }

func (w *watcher) Record(_ context.Context, o *trace.Observation) { w.seen = o }

// stubborn is a provider that ignores that its call was ended.
type stubborn struct{ *script }

func (p stubborn) Chat(_ context.Context, c provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	time.Sleep(time.Minute)
	return p.script.Chat(context.Background(), c, chat)
}

// An answer does not wait longer than loserTime for a call that does not end.
func TestCallThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setupHedged(t, vendorOf("a", nil), vendorOf("b", after(quick, "b")))
		b.Fleet().Providers["a"] = stubborn{b.scripts["a"]}
		d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
		b.Admission = d
		began := time.Now()
		got, _, err := serveHedged(t.Context(), b, request(), false)
		if took := time.Since(began); err != nil || got != "b" || took != tardy+loserTime {
			t.Errorf("%q after %s, %v", got, took, err)
		}
		time.Sleep(2 * time.Minute)
		checkRows(t, b, "a interrupted reported, b completed reported") // What the vendor has reported in the end.
	})
}
