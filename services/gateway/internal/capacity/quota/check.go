package quota

import (
	"slices"
	"time"
)

// second adds seconds to a time.
func second(now time.Time, n int) time.Time { return now.Add(time.Duration(n) * time.Second) }

// check decides whether an amount fits a limit beside what a window holds. It returns the time until it would, and why
// it doesn't; a wait of 0 means that it fits. paced callers are ready to wait. It doesn't see concurrent calls.
func check(w *Window, o Outside, l Limit, need Amount, paced bool, now time.Time) (time.Duration, Cause) {
	if wait := o.blocked(now); wait > 0 {
		return wait, CauseVendor
	}
	room := Limit{Tokens: o.believed(l.Tokens, now), Requests: o.believed(l.Requests, now)}
	if used := w.used(now.Unix()); !room.holds(l, used, need, o.unseen(now)) {
		left := w.outlook(now.Unix())
		return first(now, func(n int) bool { return room.holds(l, left[n], need, o.unseen(second(now, n))) }), CauseLimit
	}
	if paced && l.Tokens > 0 {
		if wait := w.paced(room.Tokens, now); wait > 0 {
			return wait, CausePace
		}
	}
	return 0, CauseNone
}

// holds reports whether room is enough for what is used, needed and unseen, by the dimensions that l limits.
func (room Limit) holds(l Limit, used, need Amount, unseen int64) bool {
	return (l.Tokens == 0 || used.Tokens+unseen+need.Tokens <= room.Tokens) &&
		(l.Requests == 0 || used.Requests+need.Requests <= room.Requests)
}

// part is what one replica has of every limit while the replicas can't share their books: one part for each member, of
// which rank numbers its own.
type part struct{ members, rank int }

// partOf returns the part of one of the members, which are sorted.
func partOf(members []string, replica string) part {
	rank, _ := slices.BinarySearch(members, replica)
	return part{members: max(1, len(members)), rank: rank}
}

// of returns the part of a number. The parts of all members add up to it.
func (p part) of(n int64) int64 {
	members := int64(max(1, p.members))
	share := max(0, n) / members
	if int64(p.rank) < max(0, n)%members {
		share++
	}
	return share
}

// checkPart decides as check does, for a replica that is on its own: shared is what all replicas had booked when they
// were last in touch, alone what this one granted since. What ages out of the shared books is divided between the
// members, so that they together stay within the limit however uneven its use was. paced callers are ready to wait.
func (p part) check(shared, alone *Window, o Outside, l Limit, need Amount, paced bool, now time.Time) (time.Duration, Cause) {
	if wait := o.blocked(now); wait > 0 {
		return wait, CauseVendor
	}
	tokens, requests := o.believed(l.Tokens, now), o.believed(l.Requests, now)
	before, since := shared.outlook(now.Unix()), alone.outlook(now.Unix())
	room := func(n int) Limit {
		return Limit{Tokens: p.of(tokens - before[n].Tokens - o.unseen(second(now, n))), Requests: p.of(requests - before[n].Requests)}
	}
	if wait := first(now, func(n int) bool { return room(n).holds(l, since[n], need, 0) }); wait > 0 {
		return wait, CauseStore
	}
	if halfUsed := 2*since[0].Tokens >= p.of(tokens-2*before[0].Tokens); !paced || l.Tokens == 0 || !halfUsed {
		return 0, CauseNone
	}
	steady := pace(float64(p.of(tokens)), func(n int) int64 { return room(n).Tokens - since[n].Tokens })
	if wait := alone.pauseAt(steady, now); wait > 0 {
		return wait, CausePace
	}
	return 0, CauseNone
}
