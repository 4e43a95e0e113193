package inference

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// refused checks an error's status, reason and, unless empty, class.
func refused(t *testing.T, err error, status int, reason apierr.Reason, class apierr.Class) *apierr.Error {
	t.Helper()
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok {
		t.Fatalf("error %v, want %d %s %s", err, status, reason, class)
	}
	if e.Kind.HTTPStatus() != status || e.Reason != reason {
		t.Fatalf("error %+v, want %d %s", err, status, reason)
	}
	if class != "" && e.ErrorClass() != class {
		t.Fatalf("class %s of %+v, want %s", e.ErrorClass(), err, class)
	}
	return e
}

// checkServed checks which provider served, in place of which other one. It compares no other field of the report.
func checkServed(t *testing.T, want, got ledger.Report) {
	t.Helper()
	got = ledger.Report{Provider: got.Provider, RequestedProvider: got.RequestedProvider, Substituted: got.Substituted}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("served (-want +got):\n%s", diff)
	}
}

// billedRow is what a ledger row bills.
type billedRow struct {
	Provider string
	Outcome  ledger.Outcome
	State    ledger.State
	Usage    provider.Usage
}

// checkBilled checks that the ledger has one row, and what that bills.
func checkBilled(t *testing.T, b *bench, want billedRow) {
	t.Helper()
	var got []billedRow
	for _, e := range b.ledger.entries {
		got = append(got, billedRow{e.Provider, e.Outcome, e.State, e.Usage})
	}
	if diff := cmp.Diff([]billedRow{want}, got); diff != "" {
		t.Errorf("billed (-want +got):\n%s", diff)
	}
}

// checkRecalled checks that the second row bills nothing for the answer of the first.
func checkRecalled(t *testing.T, first, second ledger.Entry) {
	t.Helper()
	want := first
	want.CacheHit, want.Cost, want.PriceVersion, want.Attempts = true, 0, "", 0
	if diff := cmp.Diff(want, second, cmpopts.IgnoreFields(ledger.Entry{}, "ID", "StartedAt", "EndedAt")); diff != "" {
		t.Errorf("row of a recalled answer (-want +got):\n%s", diff)
	}
	if second.ID == first.ID {
		t.Errorf("both rows have the ID %s", first.ID)
	}
	if second.State != ledger.StateReported || second.Estimated() {
		t.Errorf("state %s, estimated %t; want %s", second.State, second.Estimated(), ledger.StateReported)
	}
}
