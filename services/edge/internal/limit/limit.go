// Package limit limits the rate of keys and organizations over all replicas, without a remote call in the path of a
// request.
//
// Each replica decides by the generic cell rate algorithm (GCRA) on its local state of a bucket, and settles with the
// fleet asynchronously: it reports what it spent and receives what all replicas have spent. Between settlements a
// replica may spend only a lease of each bucket, so that R replicas together admit at most R leases too many. While
// settlements fail, each replica continues with its local state.
//
// Package api calls Take, package app runs the settling.
package limit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limit allows Requests in each Window on average, and Burst of them at once. The zero Limit means no limit.
type Limit struct {
	Requests int
	Window   time.Duration
	Burst    int
}

const (
	maxRequests = 1_000_000
	maxWindow   = 24 * time.Hour
	// leaseShare: a replica may spend 1/leaseShare of a burst unsettled.
	leaseShare = 50
)

// The errors of an invalid limit; each states the rule.
var (
	errRequests = fmt.Errorf("requests must be from 1 to %d", maxRequests)
	errWindow   = fmt.Errorf("the window must be whole seconds, from 1 s to %d", int(maxWindow/time.Second))
	errBurst    = fmt.Errorf("the burst must be from 1 to %d", maxRequests)
	errText     = errors.New("want requests/window, such as 600/1m, or requests/window/burst, such as 600/1m/50")
)

// Check returns the rule that a limit violates, nil for a valid one and for the zero Limit.
func (l Limit) Check() error {
	switch {
	case l == Limit{}:
		return nil
	case l.Requests < 1 || l.Requests > maxRequests:
		return errRequests
	case l.Window < time.Second || l.Window > maxWindow || l.Window%time.Second != 0:
		return errWindow
	case l.Burst < 1 || l.Burst > maxRequests:
		return errBurst
	}
	return nil
}

// UnmarshalText parses "600/1m" or "600/1m/50": requests, window and burst, which defaults to the requests. An empty
// text is the zero Limit.
func (l *Limit) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), "/")
	if string(text) == "" {
		*l = Limit{}
		return nil
	}
	if len(parts) != 2 && len(parts) != 3 {
		return errText
	}
	requests, err := strconv.Atoi(parts[0])
	if err != nil {
		return errText
	}
	window, err := time.ParseDuration(parts[1])
	if err != nil {
		return errText
	}
	found := Limit{Requests: requests, Window: window, Burst: requests}
	if len(parts) == 3 {
		if found.Burst, err = strconv.Atoi(parts[2]); err != nil {
			return errText
		}
	}
	if err := found.Check(); err != nil {
		return err
	}
	if requests < 1 {
		return errRequests
	}
	*l = found
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (l Limit) MarshalText() ([]byte, error) {
	if l == (Limit{}) {
		return nil, nil
	}
	return fmt.Appendf(nil, "%d/%s/%d", l.Requests, l.Window, l.Burst), nil
}

// interval returns the cost of one request: the time in which the bucket earns it back.
func (l Limit) interval() time.Duration { return l.Window / time.Duration(l.Requests) }

// tolerance returns how far ahead of now a bucket may be spent.
func (l Limit) tolerance() time.Duration { return l.interval() * time.Duration(l.Burst) }

// lease returns how many requests a replica may admit before it has settled them.
func (l Limit) lease() int64 { return int64(max(1, min(l.Burst, l.Requests)/leaseShare)) }

// spend decides on one request against a bucket that is full again at full. It returns the bucket afterwards. A
// refused request costs nothing, and wait is the time until one would be admitted.
func (l Limit) spend(full, now time.Time) (after time.Time, wait time.Duration) {
	if full.Before(now) {
		full = now
	}
	after = full.Add(l.interval())
	if over := after.Sub(now) - l.tolerance(); over > 0 {
		return full, over
	}
	return after, 0
}

// remaining returns how many requests a bucket would admit now.
func (l Limit) remaining(full, now time.Time) int {
	return int(max(0, l.tolerance()-max(0, full.Sub(now))) / l.interval())
}
