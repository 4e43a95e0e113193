package organization

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var now = time.Date(2026, 12, 31, 23, 30, 0, 0, time.FixedZone("west", -3600))

func TestBounds(t *testing.T) {
	for period, want := range map[Period][2]string{
		PeriodDay:   {"2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z"},
		PeriodMonth: {"2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z"},
		PeriodTotal: {"0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
	} {
		start, end := period.Bounds(now)
		if got := [2]string{start.Format(time.RFC3339), end.Format(time.RFC3339)}; got != want {
			t.Errorf("%s: %v, want %v", period, got, want)
		}
	}
	if start, _ := PeriodMonth.Bounds(now.Add(-time.Hour)); start.Month() != time.December {
		t.Errorf("an hour before, the month began at %s", start)
	}
}

func TestApply(t *testing.T) {
	suspend := Change{Suspended: true, By: "ada", Reason: "abuse", At: now}
	suspended, changed := Status{}.Apply(suspend)
	want := Status{Suspended: true, Reason: "abuse", UpdatedAt: now, SuspendedAt: now, SuspendedBy: "ada"}
	if !changed || suspended != want {
		t.Errorf("%+v %v", suspended, changed)
	}
	again := suspend
	again.By, again.At = "eve", now.Add(time.Hour)
	if same, changed := suspended.Apply(again); changed || same != want {
		t.Errorf("again: %+v %v", same, changed)
	}
	restored, changed := suspended.Apply(Change{By: "bob", Reason: "paid", At: now.Add(time.Hour)})
	if want := (Status{Reason: "paid", UpdatedAt: now.Add(time.Hour)}); !changed || restored != want {
		t.Errorf("restored: %+v %v", restored, changed)
	}
}

// After any sequence of changes the last one is in force, and SuspendedBy is set exactly while the organization is
// suspended.
func TestTheLastChangeHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Status
		for i, suspended := range rapid.SliceOf(rapid.Bool()).Draw(t, "changes") {
			before := s
			var changed bool
			s, changed = s.Apply(Change{Suspended: suspended, By: "ada", At: now.Add(time.Duration(i))})
			if s.Suspended != suspended || changed == (before.Suspended == suspended) {
				t.Fatalf("suspended %t after %t, changed %t; want %t", s.Suspended, before.Suspended, changed, suspended)
			}
			if (s.SuspendedBy != "") != suspended {
				t.Fatalf("suspended %t by %q", suspended, s.SuspendedBy)
			}
			if s.SuspendedAt.IsZero() == suspended {
				t.Fatalf("suspended %t at %v", suspended, s.SuspendedAt)
			}
		}
	})
}

func TestRemaining(t *testing.T) {
	spend := Spend{Organization: Organization{Budget: Budget{CeilingCents: 10}}, SpentCents: 4, ReservedCents: 5}
	if left, limited := spend.Remaining(); left != 1 || !limited {
		t.Errorf("%g %v", left, limited)
	}
	spend.Organization.Budget.CeilingCents, spend.SpentCents, spend.ReservedCents = 5, 3.8551, 0
	if left, _ := spend.Remaining(); left != 1.1449 {
		t.Errorf("%v is left of 5 less 3.8551", left)
	}
	spend.SpentCents = 40
	if left, _ := spend.Remaining(); left != 0 {
		t.Errorf("%g is left of what is overrun", left)
	}
	if _, limited := (Spend{}).Remaining(); limited {
		t.Error("limited without a ceiling")
	}
}
