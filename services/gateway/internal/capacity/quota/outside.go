package quota

import "time"

const (
	// cutTo is what remains of a believed limit after a vendor refused although some of it was free; it is cut at most
	// once per recoverEvery, and recovers recoverPart of the configured limit in that time.
	cutTo        = 0.9
	recoverPart  = 0.01
	recoverEvery = 10 * time.Second
	// leastFactor bounds the cuts from below.
	leastFactor = 0.1
	// longestBlock bounds what one refusal of a vendor may ask for.
	longestBlock = time.Hour
	// toleratedPart: a vendor's remaining tokens may be 1/toleratedPart of the limit below ours without consequence.
	// Vendors round them, and stamp them before concurrent calls end.
	toleratedPart = 20
)

// Outside is what is known of a subject from its vendor, beside what was booked. The zero Outside is nothing.
type Outside struct {
	// Blocked: nothing is free until then.
	Blocked time.Time
	// Factor is the believed part of the limit as of Cut; the zero Cut means all of it.
	Factor float64
	Cut    time.Time
	// Unseen tokens were used by others, as of From; they become fewer until Until.
	Unseen      int64
	From, Until time.Time
}

// factor returns the part of the configured limit that is believed.
func (o Outside) factor(now time.Time) float64 {
	if o.Cut.IsZero() {
		return 1
	}
	return min(1, o.Factor+recoverPart*float64(now.Sub(o.Cut))/float64(recoverEvery))
}

// believed returns the believed part of a limit, at least 1.
func (o Outside) believed(limit int64, now time.Time) int64 {
	if o.Cut.IsZero() {
		return limit
	}
	return max(1, int64(float64(limit)*o.factor(now)))
}

// unseen returns the tokens that others have used.
func (o Outside) unseen(now time.Time) int64 {
	left, all := o.Until.Sub(now), o.Until.Sub(o.From)
	if left <= 0 || all <= 0 {
		return 0
	}
	return int64(float64(o.Unseen) * min(1, float64(left)/float64(all)))
}

// News is what a vendor reported of a subject. Times are durations, since the clocks of replicas differ.
type News struct {
	Subject Subject
	// Blocked: nothing is free for that long. Cut: and the limit is less than believed.
	Blocked time.Duration
	Cut     bool
	// Unseen tokens were used by others, and are forgotten within Reset.
	Unseen int64
	Reset  time.Duration
}

// Learn applies news.
func (o *Outside) Learn(n News, now time.Time) {
	if until := now.Add(min(n.Blocked, longestBlock)); n.Blocked > 0 && until.After(o.Blocked) {
		o.Blocked = until
	}
	if n.Cut && now.Sub(o.Cut) >= recoverEvery {
		o.Factor, o.Cut = max(leastFactor, cutTo*o.factor(now)), now
	}
	if n.Reset > 0 && n.Unseen > o.unseen(now) {
		o.Unseen, o.From, o.Until = n.Unseen, now, now.Add(min(n.Reset, span))
	}
}

// blocked returns how long nothing is free.
func (o Outside) blocked(now time.Time) time.Duration { return max(0, o.Blocked.Sub(now)) }

// over reports whether nothing is known any more.
func (o Outside) over(now time.Time) bool {
	return o.blocked(now) == 0 && o.factor(now) >= 1 && o.unseen(now) == 0
}
