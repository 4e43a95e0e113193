package postgres_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/operations/catalog"
	"switchyard.dev/services/gateway/internal/operations/status"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

// Of many operators who saw the same state, one changes it, and the others are refused.
func TestSteeringByManyAtATime(t *testing.T) {
	store := postgres.NewSteering(postgres.NewControl(testkit.Postgres(t, migrations.FS), func(context.Context, control.Topic, int64) {}))
	var won, conflicts atomic.Int32
	var operators sync.WaitGroup
	for i := range 10 {
		operators.Go(func() {
			to := steering.Setting{Target: provider.Target{Provider: "p" + string(rune('a'+i))}, Since: time.Now(), By: "ops"}
			_, err := store.Change(t.Context(), steering.KindPin, steering.Change{To: to, Expected: new(0)})
			e, refused := errors.AsType[*apierr.Error](err)
			switch {
			case err == nil:
				won.Add(1)
			case refused && e.Reason == steering.ReasonVersionConflict:
				conflicts.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	operators.Wait()
	state, level, err := store.State(t.Context())
	if won.Load() != 1 || conflicts.Load() != 9 || err != nil || state.Pin.Revision != 1 || level == 0 || state.Canary.IsSet() {
		t.Errorf("%d won, %d were refused; %+v at %d, %v", won.Load(), conflicts.Load(), state, level, err)
	}
}

func TestCanaryArms(t *testing.T) {
	store := postgres.NewSteering(postgres.NewControl(testkit.Postgres(t, migrations.FS), func(context.Context, control.Topic, int64) {}))
	add := steering.Arms{Canary: steering.Arm{Requests: 3, Failed: 1, Latency: 20 * time.Millisecond}, Stable: steering.Arm{Requests: 5, FailedOver: 2, Latency: time.Second}}
	for range 2 {
		if err := store.AddArms(t.Context(), 1, add); err != nil {
			t.Fatal(err)
		}
	}
	if arms, err := store.Arms(t.Context(), 1); err != nil || arms.Canary != (steering.Arm{Requests: 6, Failed: 2, Latency: 40 * time.Millisecond}) || arms.Stable.FailedOver != 4 {
		t.Errorf("%+v, %v", arms, err)
	}
	for i := range 30 { // Old ones are deleted.
		to := steering.Setting{Target: provider.Target{Provider: "p"}, Percentage: float64(i), Sticky: steering.ByRun, Since: time.Now(), By: "ops"}
		if _, err := store.Change(t.Context(), steering.KindCanary, steering.Change{To: to}); err != nil {
			t.Fatal(err)
		}
	}
	if arms, err := store.Arms(t.Context(), 1); err != nil || arms != (steering.Arms{}) {
		t.Errorf("%+v, %v", arms, err)
	}
}

func TestDeprecationsAreKept(t *testing.T) {
	store := postgres.NewDeprecations(postgres.NewControl(testkit.Postgres(t, migrations.FS), func(context.Context, control.Topic, int64) {}))
	at := time.Now().UTC().Truncate(time.Microsecond)
	cutoff := time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC)
	set := catalog.Deprecation{Target: provider.Target{Provider: "p", Model: "m/x"}, Successor: "n", Reason: "r", Cutoff: cutoff, At: at, By: "ops", UpdatedAt: at}
	if err := store.Deprecate(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	again := set
	again.Cutoff, again.Reason, again.At, again.UpdatedAt, again.By = time.Time{}, "r2", at.Add(time.Hour), at.Add(time.Hour), "eve"
	if err := store.Deprecate(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	all, level, err := store.Deprecations(t.Context())
	if err != nil || len(all) != 1 || level != 2 {
		t.Fatalf("%+v at %d, %v", all, level, err)
	}
	want := set // The cutoff and the time of the first stay.
	want.Reason, want.By, want.UpdatedAt = "r2", "eve", at.Add(time.Hour)
	if diff := cmp.Diff(want, all[0], cmpopts.EquateApproxTime(0)); diff != "" {
		t.Errorf("deprecation (-want +got):\n%s", diff)
	}
}

func TestReports(t *testing.T) {
	board := postgres.NewReports(testkit.Postgres(t, migrations.FS))
	a := status.Report{Replica: uuid.NewString(), Address: "x", Ready: true, Vendors: []status.ProviderReport{{Provider: "p", Attempts: 3}}}
	b := status.Report{Replica: uuid.NewString(), Draining: true}
	for _, r := range []status.Report{a, b, a} {
		if _, err := board.Exchange(t.Context(), r, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	reports, err := board.Exchange(t.Context(), a, time.Minute)
	if err != nil || len(reports) != 2 {
		t.Fatalf("%+v, %v", reports, err)
	}
	for _, r := range reports {
		if r.Age < 0 || r.Age > 30*time.Second {
			t.Errorf("the report of %s is %s old", r.Replica, r.Age)
		}
		if r.Replica == a.Replica && (!r.Ready || r.Vendors[0].Attempts != 3) {
			t.Errorf("a's report: ready %t, %d attempts, want true, 3", r.Ready, r.Vendors[0].Attempts)
		}
	}
	if err := board.Delete(t.Context(), b.Replica); err != nil {
		t.Fatal(err)
	}
	if reports, err = board.Exchange(t.Context(), a, time.Minute); err != nil || len(reports) != 1 {
		t.Errorf("%+v, %v", reports, err)
	}
}
