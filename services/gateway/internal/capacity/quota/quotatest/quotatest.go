// Package quotatest holds the conformance suite of quota.Store. Only tests import it.
package quotatest

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/platform/testkit"
)

// Open returns an empty store, and a function that loses all that is in it.
type Open func(t *testing.T) (store quota.Store, lose func())

// Run runs the suite. Each test has a store of its own; all begin at the same time, since that takes a while.
func Run(t *testing.T, open Open) {
	t.Helper()
	tests := []struct {
		name string
		run  func(*books)
	}{
		{"all claims or none", testAllOrNothing},
		{"waits", testWaits},
		{"the whole limit", testWhole},
		{"leases", testLeases},
		{"concurrent calls", testConcurrent},
		{"alternatives", testAlternatives},
		{"reports apply once", testOnce},
		{"what is too old", testTooOld},
		{"news", testNews},
		{"steady grants", testPace},
		{"order between replicas", testOrder},
		{"who joins", testJoins},
		{"snapshots", testSnapshots},
		{"books of another epoch", testEpoch},
		{"lost books", testLost},
		{"a member that is missing", testMissing},
		{"what the dead granted", testDead},
	}
	all := make([]*books, len(tests))
	for i := range tests {
		store, lose := open(t)
		all[i] = &books{t: t, Store: store, lose: lose, sequences: map[string]int64{}}
		all[i].report("a", quota.Report{})
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			all[i].t = t
			all[i].begin("a")
			test.run(all[i])
		})
	}
}

// books is a store with an epoch that has begun.
type books struct {
	quota.Store

	t         *testing.T
	lose      func()
	epoch     string
	sequences map[string]int64
	calls     int
}

// begin waits until the books are trusted; all replicas replay.
func (b *books) begin(replicas ...string) {
	b.t.Helper()
	testkit.Wait(b.t, "the books are trusted", func() error {
		trusted := true
		for _, replica := range replicas {
			trusted = b.report(replica, quota.Report{Replayed: true}).Trusted && trusted
		}
		if !trusted {
			return errors.New("not trusted")
		}
		return nil
	})
}

// report sends a report with the next sequence number.
func (b *books) report(replica string, r quota.Report) quota.View {
	b.t.Helper()
	b.sequences[replica]++
	r.Replica, r.Epoch, r.Candidate, r.Sequence = replica, b.epoch, fmt.Sprint("epoch ", len(b.epoch), b.calls), b.sequences[replica]
	v, err := b.Exchange(b.t.Context(), r)
	if err != nil {
		b.t.Fatal(err)
	}
	if v.Epoch != b.epoch {
		b.epoch, b.sequences = v.Epoch, map[string]int64{}
	}
	return v
}

func (b *books) request(place *quota.Place, alternatives ...[]quota.Booking) quota.Grant {
	b.t.Helper()
	return b.requestBy("a", place, alternatives...)
}

func (b *books) requestBy(replica string, place *quota.Place, alternatives ...[]quota.Booking) quota.Grant {
	b.t.Helper()
	b.calls++
	r := quota.Request{Epoch: b.epoch, Replica: replica, ID: strconv.Itoa(b.calls), Hold: time.Minute, Place: place, Alternatives: alternatives}
	g, err := b.Reserve(b.t.Context(), r)
	if err != nil {
		b.t.Fatal(err)
	}
	return g
}

// used fails the test unless so much is booked of a subject.
func (b *books) used(what string, s quota.Subject, want quota.Amount) {
	b.t.Helper()
	all, now, err := b.Snapshots(b.t.Context(), b.epoch, []quota.Subject{s})
	if err != nil {
		b.t.Fatal(err)
	}
	var got quota.Amount
	for slot := now.Unix() - 60; slot <= now.Unix(); slot++ {
		at := all[0].Window.At(slot)
		got.Tokens += at.Tokens
		got.Requests += at.Requests
	}
	if got != want {
		b.t.Errorf("%s: %+v of %s are booked, want %+v", what, got, s, want)
	}
}

func booking(s quota.Subject, l quota.Limit, tokens int64) quota.Booking {
	return quota.Booking{Claim: quota.Claim{Subject: s, Limit: l, Tokens: tokens}}
}

func one(b quota.Booking) []quota.Booking { return []quota.Booking{b} }

// short fails the test unless all alternatives were refused, with this cause for the first, and a wait in the range.
func short(t *testing.T, what string, g quota.Grant, cause quota.Cause, index int, least, most time.Duration) {
	t.Helper()
	if g.Alternative != -1 || len(g.Short) == 0 {
		t.Errorf("%s: granted %+v", what, g)
		return
	}
	if s := g.Short[0]; s.Cause != cause || s.Booking != index || s.Wait < least || s.Wait > most {
		t.Errorf("%s: %+v, want %s of booking %d for %s to %s", what, s, cause, index, least, most)
	}
}

func granted(t *testing.T, what string, g quota.Grant, alternative int) {
	t.Helper()
	if g.Alternative != alternative {
		t.Errorf("%s: %+v, want alternative %d", what, g, alternative)
	}
}

var thousand = quota.Limit{Tokens: 1000}

func testAllOrNothing(b *books) {
	t := b.t
	granted(t, "the first", b.request(nil, []quota.Booking{booking("x/1", thousand, 400), booking("x/2", thousand, 800)}), 0)
	g := b.request(nil, []quota.Booking{booking("x/1", thousand, 400), booking("x/2", thousand, 800)})
	short(t, "the second", g, quota.CauseLimit, 1, 59*time.Second, 61*time.Second)
	b.used("after a refusal", "x/1", quota.Amount{Tokens: 400, Requests: 1})
	b.used("after a refusal", "x/2", quota.Amount{Tokens: 800, Requests: 1})
	granted(t, "only what is free", b.request(nil, one(booking("x/1", thousand, 600))), 0)
	g = b.request(nil, one(booking("x/3", quota.Limit{Requests: 1}, 0)))
	granted(t, "the first request", g, 0)
	short(t, "the second request", b.request(nil, one(booking("x/3", quota.Limit{Requests: 1}, 0))), quota.CauseLimit, 0, 59*time.Second, 61*time.Second)
}

// The wait is when enough slots have aged out.
func testWaits(b *books) {
	t := b.t
	now := b.request(nil, one(booking("x/1", thousand, 100))).Now.Unix()
	b.report("a", quota.Report{Entries: []quota.Entry{
		{Subject: "x/1", Slot: now - 50, Amount: quota.Amount{Tokens: 300}},
		{Subject: "x/1", Slot: now - 30, Amount: quota.Amount{Tokens: 300}},
		{Subject: "x/1", Slot: now - 10, Amount: quota.Amount{Tokens: 300}},
	}})
	for tokens, after := range map[int64]int64{1: 11, 300: 11, 301: 31, 600: 31, 900: 51, 1000: 61} {
		want := time.Unix(now+after, 0)
		g := b.request(nil, one(booking("x/1", thousand, tokens)))
		wait := want.Sub(g.Now)
		short(t, fmt.Sprint(tokens, " tokens"), g, quota.CauseLimit, 0, wait-5*time.Millisecond, wait+5*time.Millisecond)
	}
}

func testWhole(b *books) {
	t := b.t
	granted(t, "as many tokens as the limit", b.request(nil, one(booking("x/1", thousand, 1000))), 0)
	g := b.request(nil, one(booking("x/2", thousand, 1001)))
	short(t, "one token more", g, quota.CauseLimit, 0, 61*time.Second, time.Hour)
}

func testLeases(b *books) {
	t := b.t
	with := func(tokens, lease int64) []quota.Booking {
		c := booking("x/1", thousand, tokens)
		c.Lease = quota.Amount{Tokens: lease, Requests: 2}
		return one(c)
	}
	g := b.request(nil, with(500, 300))
	if want := []quota.Amount{{Tokens: 300, Requests: 2}}; !cmp.Equal(g.Leases, want) {
		t.Errorf("leases %+v, want %+v", g.Leases, want)
	}
	b.used("with a lease", "x/1", quota.Amount{Tokens: 800, Requests: 3})
	g = b.request(nil, with(100, 101))
	if want := []quota.Amount{{}}; !cmp.Equal(g.Leases, want) {
		t.Errorf("leases %+v, want none: it does not fit", g.Leases)
	}
	b.report("a", quota.Report{Entries: []quota.Entry{{Subject: "x/1", Slot: g.Now.Unix(), Amount: quota.Amount{Tokens: -300, Requests: -2}}}})
	b.used("returned", "x/1", quota.Amount{Tokens: 600, Requests: 2})
}

func testConcurrent(b *books) {
	t := b.t
	limit := quota.Limit{Concurrent: 2}
	granted(t, "the first", b.request(nil, one(booking("x/1", limit, 0))), 0)
	first := strconv.Itoa(b.calls)
	granted(t, "the second", b.request(nil, one(booking("x/1", limit, 0))), 0)
	second := strconv.Itoa(b.calls)
	short(t, "the third", b.request(nil, one(booking("x/1", limit, 0))), quota.CauseConcurrent, 0, time.Millisecond, time.Second)
	b.report("a", quota.Report{Holds: []quota.Hold{{Subject: "x/1", ID: first}}})
	granted(t, "after the first has ended", b.request(nil, one(booking("x/1", limit, 0))), 0)
	b.report("a", quota.Report{Holds: []quota.Hold{{Subject: "x/1", ID: second, For: 50 * time.Millisecond}}})
	testkit.Wait(t, "a call that is not renewed ends", func() error {
		if g := b.request(nil, one(booking("x/1", limit, 0))); g.Alternative != 0 {
			return errors.New("refused")
		}
		return nil
	})
}

func testAlternatives(b *books) {
	t := b.t
	granted(t, "the first", b.request(nil, one(booking("x/1", thousand, 600)), one(booking("x/2", thousand, 600))), 0)
	granted(t, "the next", b.request(nil, one(booking("x/1", thousand, 600)), one(booking("x/2", thousand, 600))), 1)
	g := b.request(nil, one(booking("x/1", thousand, 600)), one(booking("x/2", thousand, 600)))
	if short(t, "none", g, quota.CauseLimit, 0, 59*time.Second, 61*time.Second); len(g.Short) != 2 {
		t.Errorf("%d reasons, want 2", len(g.Short))
	}
	granted(t, "one without a limit", b.request(nil, one(booking("x/1", thousand, 600)), nil), 1)
}

func testOnce(b *books) {
	now := b.request(nil, one(booking("x/1", thousand, 100))).Now.Unix()
	r := quota.Report{Entries: []quota.Entry{{Subject: "x/1", Slot: now, Amount: quota.Amount{Tokens: 50, Requests: 1}}}}
	b.report("a", r)
	b.sequences["a"]-- // The answer was lost.
	b.report("a", r)
	b.used("the same report twice", "x/1", quota.Amount{Tokens: 150, Requests: 2})
	b.report("b", r)
	b.used("another replica's", "x/1", quota.Amount{Tokens: 200, Requests: 3})
}

func testTooOld(b *books) {
	t := b.t
	now := b.request(nil, one(booking("x/1", thousand, 100))).Now.Unix()
	b.report("a", quota.Report{Entries: []quota.Entry{{Subject: "x/1", Slot: now - 62, Amount: quota.Amount{Tokens: 50}}}})
	b.used("what has aged out", "x/1", quota.Amount{Tokens: 100, Requests: 1})
	b.report("a", quota.Report{Entries: []quota.Entry{{Subject: "x/1", Slot: now, Amount: quota.Amount{Tokens: 2000}}}})
	short(t, "after a debt", b.request(nil, one(booking("x/1", thousand, 0))), quota.CauseLimit, 0, 59*time.Second, 61*time.Second)
}

func testNews(b *books) {
	t := b.t
	limit := quota.Limit{Tokens: 100_000}
	b.report("a", quota.Report{News: []quota.News{{Subject: "x/1", Blocked: 20 * time.Second}}})
	short(t, "blocked", b.request(nil, one(booking("x/1", limit, 1))), quota.CauseVendor, 0, 19*time.Second, 20*time.Second)
	b.report("a", quota.Report{News: []quota.News{{Subject: "x/1", Blocked: time.Second}}})
	short(t, "a shorter block", b.request(nil, one(booking("x/1", limit, 1))), quota.CauseVendor, 0, 18*time.Second, 20*time.Second)

	cut := quota.Report{News: []quota.News{{Subject: "x/2", Cut: true}}}
	b.report("a", cut)
	b.report("b", cut) // The same refusals, met by another replica.
	short(t, "more than is believed", b.request(nil, one(booking("x/2", limit, 92_000))), quota.CauseLimit, 0, 61*time.Second, time.Hour)
	granted(t, "what is believed", b.request(nil, one(booking("x/2", limit, 90_000))), 0)

	b.report("a", quota.Report{News: []quota.News{{Subject: "x/3", Unseen: 50_000, Reset: 50 * time.Second}}})
	g := b.request(nil, one(booking("x/3", limit, 60_000)))
	short(t, "what others used", g, quota.CauseLimit, 0, 8*time.Second, 12*time.Second)
	granted(t, "what they left", b.request(nil, one(booking("x/3", limit, 49_000))), 0)
}

func testPace(b *books) {
	t := b.t
	now := b.request(nil, one(booking("x/1", thousand, 0))).Now.Unix()
	var entries []quota.Entry
	for i := int64(2); i <= 60; i++ {
		entries = append(entries, quota.Entry{Subject: "x/1", Slot: now - i, Amount: quota.Amount{Tokens: 10}})
	}
	b.report("a", quota.Report{Entries: entries})
	place := &quota.Place{Queue: "q", Organization: "o", Waits: true, Next: -1}
	steady := func(tokens int64) []quota.Booking {
		made := booking("x/1", thousand, tokens)
		made.Steady = true
		return one(made)
	}
	granted(t, "at the pace", b.request(place, steady(100)), 0)
	short(t, "faster", b.request(place, steady(1)), quota.CausePace, 0, time.Millisecond, time.Second)
	granted(t, "a caller that goes on elsewhere", b.request(place, one(booking("x/1", thousand, 1))), 0)
	granted(t, "a caller that does not wait", b.request(nil, one(booking("x/1", thousand, 1))), 0)
}

func testOrder(b *books) {
	t := b.t
	b.report("b", quota.Report{})
	place := func(organization string, served, next float64) *quota.Place {
		return &quota.Place{Queue: "q", Organization: organization, Waits: true, Served: served, Cost: 100, Slack: 50, Next: next}
	}
	full := one(booking("x/1", thousand, 1001))
	free := one(booking("x/2", thousand, 1))
	half := one(booking("x/3", thousand, 1000))
	granted(t, "before", b.request(nil, half), 0)
	short(t, "waits", b.requestBy("b", place("low", 1000, -1), half), quota.CauseLimit, 0, 59*time.Second, 61*time.Second)
	g := b.requestBy("a", place("high", 1100, -1), free)
	if short(t, "another replica's", g, quota.CauseOrder, -1, time.Millisecond, time.Second); g.Served != 1100 {
		t.Errorf("served %v, want 1100", g.Served)
	}
	granted(t, "within the slack", b.requestBy("a", place("near", 1040, -1), free), 0)
	g = b.requestBy("b", place("low", 0, 1500), free)
	if granted(t, "the first", g, 0); g.Served != 100 || g.Reached != 1040 {
		t.Errorf("served %v, reached %v, want 100 and 1040", g.Served, g.Reached)
	}
	granted(t, "after it", b.requestBy("a", place("high", 1100, -1), free), 0)
	short(t, "the next one", b.requestBy("a", place("higher", 1600, -1), free), quota.CauseOrder, -1, time.Millisecond, time.Second)
	b.report("b", quota.Report{Queues: []quota.Waiting{{Queue: "q"}}})
	granted(t, "after it left", b.requestBy("a", place("higher", 1600, -1), free), 0)

	own := booking("x/3", thousand, 10)
	own.Own = true
	b.requestBy("b", place("own", 0, -1), one(own))
	granted(t, "one that lacks something of its own", b.requestBy("a", place("higher", 1700, -1), free), 0)
	b.requestBy("b", place("never", 0, -1), full)
	granted(t, "one that never fits", b.requestBy("a", place("higher", 1800, -1), free), 0)

	b.report("a", quota.Report{Served: []quota.Served{{Queue: "q", Organization: "higher", Cost: -1000}, {Queue: "q", Organization: "unknown", Cost: -1000}}})
	if g := b.requestBy("a", place("higher", 5000, -1), free); g.Served != 1000 {
		t.Errorf("served %v after a correction, want 1000", g.Served)
	}
	if g := b.requestBy("a", place("unknown", 5000, -1), free); g.Served != 5100 {
		t.Errorf("served %v to one that the store doesn't know, want 5100", g.Served)
	}
}

func testJoins(b *books) {
	t := b.t
	b.report("b", quota.Report{})
	full, free := one(booking("x/1", thousand, 1000)), one(booking("x/2", thousand, 1))
	joins := func(organization string) quota.Grant {
		t.Helper()
		return b.request(&quota.Place{Queue: "q", Organization: organization, Cost: 1, Slack: 1e9, Next: -1, Joins: true}, free)
	}
	granted(t, "before", b.request(nil, full), 0)
	granted(t, "before", b.request(&quota.Place{Queue: "q", Organization: "old", Served: 700, Cost: 100, Next: -1}, free), 0)
	if g := joins("first"); g.Served != 701 {
		t.Errorf("starts at %v without others, want 700", g.Served-1)
	}
	b.requestBy("b", &quota.Place{Queue: "q", Organization: "waits", Waits: true, Served: 300, Cost: 1, Next: -1}, full)
	if g := joins("second"); g.Served != 301 {
		t.Errorf("starts at %v beside one that waits, want 300", g.Served-1)
	}
}

func testSnapshots(b *books) {
	t := b.t
	now := b.request(nil, one(booking("x/1", thousand, 100))).Now.Unix()
	b.report("a", quota.Report{
		Entries: []quota.Entry{{Subject: "x/1", Slot: now - 20, Amount: quota.Amount{Tokens: 7, Requests: 3}}},
		News:    []quota.News{{Subject: "x/1", Blocked: time.Minute, Cut: true, Unseen: 9, Reset: 30 * time.Second}},
	})
	all, at, err := b.Snapshots(t.Context(), b.epoch, []quota.Subject{"x/0", "x/1"})
	if err != nil || len(all) != 2 {
		t.Fatalf("%d snapshots, %v", len(all), err)
	}
	for slot, want := range map[int64]quota.Amount{now: {Tokens: 100, Requests: 1}, now - 20: {Tokens: 7, Requests: 3}, now - 21: {}} {
		if got := all[1].Window.At(slot); got != want {
			t.Errorf("slot %d: %+v, want %+v", slot-now, got, want)
		}
	}
	o := all[1].Outside
	if left := o.Blocked.Sub(at); left < 58*time.Second || left > time.Minute {
		t.Errorf("blocked for %s", left)
	}
	if since := at.Sub(o.Cut); o.Factor != 0.9 || since < 0 || since > 2*time.Second {
		t.Errorf("cut to %v %s ago", o.Factor, since)
	}
	if o.Unseen != 9 || o.Until.Sub(o.From) != 30*time.Second {
		t.Errorf("%d unseen for %s", o.Unseen, o.Until.Sub(o.From))
	}
}

func testEpoch(b *books) {
	t := b.t
	if _, err := b.Reserve(t.Context(), quota.Request{Epoch: "another", Replica: "a", Alternatives: [][]quota.Booking{nil}}); !errors.Is(err, quota.ErrEpoch) {
		t.Errorf("Reserve = %v, want ErrEpoch", err)
	}
	if _, _, err := b.Snapshots(t.Context(), "another", nil); !errors.Is(err, quota.ErrEpoch) {
		t.Errorf("Snapshots = %v, want ErrEpoch", err)
	}
	now := b.request(nil, one(booking("x/1", thousand, 100))).Now.Unix()
	v, err := b.Exchange(t.Context(), quota.Report{
		Replica: "b", Epoch: "another", Sequence: 1, Entries: []quota.Entry{{Subject: "x/1", Slot: now, Amount: quota.Amount{Tokens: 50}}},
	})
	if err != nil || v.Epoch != b.epoch {
		t.Errorf("Exchange = %+v, %v, want epoch %q", v, err, b.epoch)
	}
	b.used("a report of another epoch", "x/1", quota.Amount{Tokens: 100, Requests: 1})
	if want := []string{"a", "b"}; !cmp.Equal(v.Members, want) || !v.Trusted {
		t.Errorf("members %v, trusted %t, want %v, true", v.Members, v.Trusted, want)
	}
}

func testLost(b *books) {
	t := b.t
	b.begin("a", "b")
	granted(t, "before", b.request(nil, one(booking("x/1", thousand, 100))), 0)
	b.lose()
	if _, err := b.Reserve(t.Context(), quota.Request{Epoch: b.epoch, Replica: "a", Alternatives: [][]quota.Booking{nil}}); !errors.Is(err, quota.ErrEpoch) {
		t.Errorf("Reserve = %v, want ErrEpoch", err)
	}
	before := b.epoch
	b.calls++
	v := b.report("a", quota.Report{Members: []string{"a", "b"}})
	if v.Epoch == before || v.Trusted {
		t.Fatalf("%+v, want another epoch that is not trusted", v)
	}
	entries := []quota.Entry{{Subject: "x/1", Slot: v.Now.Unix() - 5, Amount: quota.Amount{Tokens: 100, Requests: 1}}}
	b.report("a", quota.Report{Replayed: true, Entries: entries})
	b.report("b", quota.Report{Replayed: true, Members: []string{"a", "b"}, Entries: entries})
	b.begin("a", "b")
	b.used("after the replay", "x/1", quota.Amount{Tokens: 200, Requests: 2})
}

// A member that doesn't replay holds the books up.
func testMissing(b *books) {
	t := b.t
	b.lose()
	b.calls++
	b.report("a", quota.Report{Members: []string{"a", "gone"}})
	since := time.Now()
	testkit.Wait(t, "the time to gather is over", func() error {
		if b.report("a", quota.Report{Replayed: true}).Trusted {
			t.Fatal("trusted without a member")
		}
		if time.Since(since) < quota.Gathering+200*time.Millisecond {
			return errors.New("too early")
		}
		return nil
	})
	b.report("gone", quota.Report{Replayed: true})
	b.begin("a")
}

// What all knew of a replica that has died is in the books after they were lost.
func testDead(b *books) {
	now := b.request(nil, one(booking("x/0", thousand, 1))).Now.Unix()
	replays := func(own, known int64) quota.Report {
		return quota.Report{Entries: []quota.Entry{{
			Subject: "x/1", Slot: now - 9, Replay: true, Amount: quota.Amount{Tokens: own, Requests: 1}, Known: quota.Amount{Tokens: known, Requests: 3},
		}}}
	}
	b.report("a", replays(100, 150))
	b.used("known of another", "x/1", quota.Amount{Tokens: 150, Requests: 3})
	b.report("a", quota.Report{Entries: []quota.Entry{{Subject: "x/1", Slot: now - 9, Amount: quota.Amount{Tokens: -40}}}})
	b.report("b", replays(30, 140))
	b.used("part of what was known", "x/1", quota.Amount{Tokens: 110, Requests: 3})
	b.report("c", replays(50, 0))
	b.used("more than was known", "x/1", quota.Amount{Tokens: 140, Requests: 3})
	b.report("d", replays(0, 190))
	b.used("still more", "x/1", quota.Amount{Tokens: 150, Requests: 4})
}
