package trust

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestAssign(t *testing.T) {
	for name, test := range map[string]struct {
		inForce   Level // empty: the first record
		assigned  Level
		effective Level
		status    Status
	}{
		"first, low":        {"", Community, Community, NotRequired},
		"first, high":       {"", Verified, Untrusted, Pending},
		"up a little":       {Untrusted, Community, Community, NotRequired},
		"up":                {Community, FirstParty, Community, Pending},
		"further up":        {Verified, FirstParty, Verified, Pending},
		"down":              {FirstParty, Community, Community, NotRequired},
		"down to the least": {Verified, Untrusted, Untrusted, NotRequired},
		"down, still high":  {FirstParty, Verified, Verified, Pending},
		"the same":          {Verified, Verified, Verified, Pending},
	} {
		var before *Record
		if test.inForce != "" {
			before = &Record{Effective: test.inForce, Version: 7}
		}
		got := Assign(before, Assignment{Level: test.assigned, By: "ada", Organization: "acme", Server: "s"}, noon)
		want := Record{
			Organization: "acme", Server: "s", Level: test.assigned, Effective: test.effective, Status: test.status,
			AssignedBy: "ada", AssignedAt: noon, Version: 1,
		}
		if before != nil {
			want.Version = 8
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReview(t *testing.T) {
	pending := Assign(&Record{Effective: Community, Version: 3}, Assignment{Level: Verified, By: "ada"}, noon)
	approved, err := pending.Review(Review{Verdict: Approve, By: "bob", Reason: "fine", Version: 4}, noon.Add(time.Hour))
	if err != nil {
		t.Fatalf("approve: %v", err)
	}
	want := pending
	want.Effective, want.Status = Verified, Approved
	want.ReviewedBy, want.ReviewReason, want.ReviewedAt = "bob", "fine", noon.Add(time.Hour)
	if diff := cmp.Diff(want, approved); diff != "" {
		t.Errorf("approved (-want +got):\n%s", diff)
	}
	rejected, err := pending.Review(Review{Verdict: Reject, By: "bob"}, noon)
	if err != nil || rejected.Effective != Community || rejected.Status != Rejected {
		t.Errorf("rejected: %+v, %v", rejected, err)
	}
	low := Assign(nil, Assignment{Level: Community, By: "ada"}, noon)
	for name, test := range map[string]struct {
		record Record
		review Review
		want   error
	}{
		"by the assigner":             {pending, Review{Verdict: Approve, By: "ada"}, ErrNotIndependent},
		"by the assigner, in capital": {pending, Review{Verdict: Approve, By: " ADA "}, ErrNotIndependent},
		"for the assigner":            {pending, Review{Verdict: Approve, By: "bob", User: "Ada"}, ErrNotIndependent},
		"a rejection by the assigner": {pending, Review{Verdict: Reject, By: "ada"}, ErrNotIndependent},
		"of another version":          {pending, Review{Verdict: Approve, By: "bob", Version: 3}, ErrVersion},
		"twice":                       {approved, Review{Verdict: Reject, By: "eve"}, ErrNotPending},
		"after a rejection":           {rejected, Review{Verdict: Approve, By: "eve"}, ErrNotPending},
		"of what needs none":          {low, Review{Verdict: Approve, By: "bob"}, ErrNotPending},
		"of no verdict":               {pending, Review{Verdict: "maybe", By: "bob"}, ErrNotPending},
	} {
		if got, err := test.record.Review(test.review, noon); !errors.Is(err, test.want) || got != test.record {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
}

// After any assignments and reviews, a level above COMMUNITY is in force only as far as another principal approved it,
// and never after a lower one was assigned.
func TestTrustIsEarned(t *testing.T) {
	people := rapid.SampledFrom([]string{"ada", "Ada", "bob"})
	rapid.Check(t, func(t *rapid.T) {
		var present *Record
		earned := Community // the highest level that an independent approval covers now
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			by := people.Draw(t, "by")
			if present == nil || rapid.Bool().Draw(t, "assign") {
				next := Assign(present, Assignment{Level: rapid.SampledFrom(levels).Draw(t, "level"), By: by}, noon)
				if next.Level.rank() < earned.rank() {
					earned = max2(next.Level, Community)
				}
				if next.Effective.rank() > next.Level.rank() {
					t.Fatalf("%s is in force, though %s was assigned", next.Effective, next.Level)
				}
				present = &next
			} else {
				verdict := rapid.SampledFrom([]Verdict{Approve, Reject}).Draw(t, "verdict")
				next, err := present.Review(Review{Verdict: verdict, By: by}, noon)
				independent := (by == "bob") != (present.AssignedBy == "bob")
				if (err == nil) != (independent && present.Status == Pending) {
					t.Fatalf("a review by %s of a %s assignment by %s: %v", by, present.Status, present.AssignedBy, err)
				}
				if err == nil && verdict == Approve {
					earned = max2(next.Level, earned)
				}
				present = &next
			}
			if present.Effective.rank() > earned.rank() {
				t.Fatalf("%s is in force, %s was earned", present.Effective, earned)
			}
		}
	})
}

func max2(a, b Level) Level {
	if a.rank() > b.rank() {
		return a
	}
	return b
}
