package run

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchyard.dev/services/platform/apierr"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

var (
	statuses = []Status{Unminted, Minted, Active, Revoked, Expired, Exhausted}
	events   = []Event{Mint, Call, Revoke, Expire, Exhaust}
)

// All pairs of status and event; those left out are invalid.
func TestTransitions(t *testing.T) {
	want := map[Status]map[Event]Status{
		Unminted: {Mint: Minted},
		Minted:   {Call: Active, Revoke: Revoked, Expire: Expired, Exhaust: Exhausted},
		Active:   {Call: Active, Revoke: Revoked, Expire: Expired, Exhaust: Exhausted},
	}
	for _, s := range statuses {
		for _, e := range events {
			expected, possible := want[s][e]
			if got, ok := s.Next(e); got != expected || ok != possible {
				t.Errorf("%q after event %d: %q %v, want %q %v", s, e, got, ok, expected, possible)
			}
		}
	}
}

// In any order of events, an end is final, and no run is minted twice.
func TestEndsAreForGood(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		status, mints := Unminted, 0
		var end Status
		for _, e := range rapid.SliceOf(rapid.SampledFrom(events)).Draw(t, "events") {
			next, ok := status.Next(e)
			if !ok {
				continue
			}
			if e == Mint {
				mints++
			}
			if status = next; status.Ended() {
				end = status
			}
			if end != "" && status != end {
				t.Fatalf("%s became %s", end, status)
			}
		}
		if mints > 1 {
			t.Fatalf("minted %d times", mints)
		}
	})
}

func minted(limits Limits) Run {
	if limits.ExpiresAt.IsZero() {
		limits.ExpiresAt = now.Add(time.Hour)
	}
	return Run{Organization: "acme", ID: "r", Status: Minted, Limits: limits, CreatedAt: now.Add(-time.Hour)}
}

func used(cents float64, calls int64) Usage {
	return Usage{SpentCents: cents, Calls: calls, FirstCallAt: now.Add(-time.Minute), LastCallAt: now.Add(-time.Second)}
}

func tools(made, inFlight int64) Usage {
	u := used(0, made)
	u.ToolCalls, u.ToolsInFlight = made, inFlight
	return u
}

func TestEndReason(t *testing.T) {
	limits := Limits{MaxCostCents: 10, MaxCalls: 5, MaxToolCalls: 3}
	for _, c := range []struct {
		usage Usage
		want  EndReason
	}{
		{used(1, 1), NoEndReason},
		{used(10, 1), EndMaxCostCents},
		{used(1, 5), EndMaxCalls},
		{tools(3, 0), EndMaxToolCalls},
		{tools(2, 1), NoEndReason},
		{used(10, 5), EndMaxCostCents},
	} {
		if got := minted(limits).At(now, c.usage).EndReason; got != c.want {
			t.Errorf("%+v: %q, want %q", c.usage, got, c.want)
		}
	}
	looped := minted(Limits{})
	looped.Status, looped.EndReason, looped.EndedAt = Exhausted, EndToolLoop, now
	if got := looped.At(now, used(1, 1)); got.EndReason != EndToolLoop {
		t.Errorf("a stored reason became %q", got.EndReason)
	}
}

func TestAt(t *testing.T) {
	revoked := minted(Limits{})
	revoked.Status, revoked.EndedAt = Revoked, now.Add(-time.Minute)
	for _, c := range []struct {
		name  string
		run   Run
		usage Usage
		at    time.Time
		want  Status
		ended time.Time
	}{
		{"no call yet", minted(Limits{}), Usage{}, now, Minted, time.Time{}},
		{"called", minted(Limits{}), used(1, 1), now, Active, time.Time{}},
		{"a moment before its end", minted(Limits{}), used(1, 1), now.Add(time.Hour - 1), Active, time.Time{}},
		{"at its end", minted(Limits{}), used(1, 1), now.Add(time.Hour), Expired, now.Add(time.Hour)},
		{"never called, at its end", minted(Limits{}), Usage{}, now.Add(time.Hour), Expired, now.Add(time.Hour)},
		{"below its calls", minted(Limits{MaxCalls: 3}), used(1, 2), now, Active, time.Time{}},
		{"its calls used up", minted(Limits{MaxCalls: 3}), used(1, 3), now, Exhausted, now.Add(-time.Second)},
		{"below its cost", minted(Limits{MaxCostCents: 3}), used(2.999, 3), now, Active, time.Time{}},
		{"its cost used up", minted(Limits{MaxCostCents: 3}), used(3, 3), now, Exhausted, now.Add(-time.Second)},
		{"below its calls of tools", minted(Limits{MaxToolCalls: 2}), tools(1, 5), now, Active, time.Time{}},
		{"its calls of tools used up", minted(Limits{MaxToolCalls: 2}), tools(2, 0), now, Exhausted, now.Add(-time.Second)},
		{"revoked, whatever else", revoked, used(100, 100), now.Add(24 * time.Hour), Revoked, now.Add(-time.Minute)},
		{"never minted", Run{}, used(100, 100), now, Unminted, time.Time{}},
	} {
		if got := c.run.At(c.at, c.usage); got.Status != c.want || !got.EndedAt.Equal(c.ended) {
			t.Errorf("%s: %s ended %s, want %s ended %s", c.name, got.Status, got.EndedAt, c.want, c.ended)
		}
	}
}

func TestRefusal(t *testing.T) {
	with := func(status Status, aborted bool) *Run {
		r := minted(Limits{})
		if r.Status = status; aborted {
			r.Abort.RequestedAt = now
		}
		return &r
	}
	for _, c := range []struct {
		run  *Run
		at   time.Time
		want *apierr.Error
	}{
		{with(Minted, false), now, nil},
		{with(Active, false), now, nil},
		{with(Active, false), now.Add(time.Hour), ErrExpired},
		{with(Active, true), now, ErrAborted},
		{with(Revoked, true), now, ErrRevoked},
		{with(Expired, false), now, ErrExpired},
		{with(Exhausted, false), now, ErrExhausted},
		{with(Unminted, true), now.Add(time.Hour), ErrAborted},
	} {
		if got := c.run.Refusal(c.at); got != c.want {
			t.Errorf("%s, aborted %v: %v, want %v", c.run.Status, c.run.Abort.Requested(), got, c.want)
		}
	}
}

func TestRevoked(t *testing.T) {
	got, changed, err := minted(Limits{}).Revoked(now, Usage{}, "ada", "runaway")
	if err != nil || !changed {
		t.Fatalf("changed %t, %v", changed, err)
	}
	want := minted(Limits{})
	want.Status, want.EndedAt, want.RevokedBy, want.RevokeReason = Revoked, now, "ada", "runaway"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("revoked (-want +got):\n%s", diff)
	}
	again, changed, err := got.Revoked(now.Add(time.Minute), Usage{}, "eve", "")
	if err != nil || changed {
		t.Errorf("again: changed %t, %v", changed, err)
	}
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("revoked again (-want +got):\n%s", diff)
	}
	var refused *apierr.Error
	if _, _, err := minted(Limits{MaxCalls: 1}).Revoked(now, used(1, 1), "ada", ""); !errors.As(err, &refused) || refused.Kind != apierr.KindConflict {
		t.Errorf("an exhausted one: %v", err)
	}
	if _, _, err := (Run{}).Revoked(now, Usage{}, "ada", ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("one that nobody minted: %v", err)
	}
}

func TestAllows(t *testing.T) {
	limits := Limits{Models: []string{"gpt-5", "anthropic/claude"}}
	for _, c := range []struct {
		names []string
		want  bool
	}{
		{[]string{"gpt-5", "openai/gpt-5", "gpt-5-2025"}, true},
		{[]string{"claude", "anthropic/claude", "claude-x"}, true},
		{[]string{"claude", "bedrock/claude", "claude-x"}, false},
	} {
		if limits.Allows(c.names...) != c.want || !(Limits{}).Allows(c.names...) {
			t.Errorf("%v: %v", c.names, !c.want)
		}
	}
}

func TestAllowsTool(t *testing.T) {
	limits := Limits{AllowedTools: []string{"github/get_*", "files/read", "*-ro/*", "broken"}}
	for tool, want := range map[[2]string]bool{
		{"github", "get_issue"}: true, {"github", "delete"}: false, {"files", "read"}: true, {"files", "Read"}: false, {"files", "read2"}: false,
		{"db-ro", "any/thing"}: true, {"db", "query"}: false, {"broken", ""}: false, {"github/get_x", "y"}: false, {"", ""}: false,
	} {
		if got := limits.AllowsTool(tool[0], tool[1]); got != want {
			t.Errorf("%v: %t", tool, got)
		}
		if !(Limits{}).AllowsTool(tool[0], tool[1]) {
			t.Errorf("%v: is refused by no limits", tool)
		}
	}
}

func TestSessionStatus(t *testing.T) {
	aborted := Run{Abort: Abort{RequestedAt: now}}
	late := used(1, 1)
	late.LastCallAt = now.Add(-ActiveFor)
	flying := late
	flying.InFlight = 1
	for _, c := range []struct {
		run   Run
		usage Usage
		want  string
	}{
		{Run{}, used(1, 1), SessionActive},
		{Run{}, late, SessionIdle},
		{Run{}, flying, SessionActive},
		{aborted, flying, SessionAborting},
		{aborted, late, SessionAborted},
		{minted(Limits{MaxCalls: 1}), used(1, 1), "exhausted"},
	} {
		if got := c.run.SessionStatus(now, c.usage); got != c.want {
			t.Errorf("%+v: %s, want %s", c.usage, got, c.want)
		}
	}
}
