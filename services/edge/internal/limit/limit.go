// Package limit bounds how often a key and an organization may call, over all
// replicas, without a remote call in the path of a request.
//
// Each replica decides by the generic cell rate algorithm (GCRA) on what it
// knows of a bucket, and settles with the fleet asynchronously: it reports what
// it spent and learns what all have spent. Before it has settled, a replica may
// spend a lease of each bucket and no more, so that R replicas together admit at
// most R leases too many. While settlements fail, each replica goes on by what
// it knows, as if it were alone.
//
// The api package calls Take, the app package runs the settling.
package limit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limit allows Requests in each Window on average, and Burst of them at once.
// The zero Limit is none.
type Limit struct {
	Requests int
	Window   time.Duration
	Burst    int
}

const (
	maxRequests = 1_000_000
	maxWindow   = 24 * time.Hour
	// leaseShare is the part of a burst that a replica may spend unsettled.
	leaseShare = 50
)

// Errors of a limit that breaks a rule; each states the rule.
var (
	errRequests = fmt.Errorf("requests must be from 1 to %d", maxRequests)
	errWindow   = fmt.Errorf("the window must be whole seconds, from 1 s to %d", int(maxWindow/time.Second))
	errBurst    = fmt.Errorf("the burst must be from 1 to %d", maxRequests)
	errText     = errors.New("want requests/window, such as 600/1m, or requests/window/burst, such as 600/1m/50")
)

// Check tells what is wrong with a limit, nil for none and for a good one.
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

// UnmarshalText reads "600/1m" or "600/1m/50": requests, window and burst, which
// is as many as the requests unless it is given. An empty text is none.
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

// MarshalText writes what UnmarshalText reads.
func (l Limit) MarshalText() ([]byte, error) {
	if l == (Limit{}) {
		return nil, nil
	}
	return fmt.Appendf(nil, "%d/%s/%d", l.Requests, l.Window, l.Burst), nil
}

// interval is what one request costs: the time in which the bucket earns it back.
func (l Limit) interval() time.Duration { return l.Window / time.Duration(l.Requests) }

// tolerance is how far ahead of now a bucket may be spent.
func (l Limit) tolerance() time.Duration { return l.interval() * time.Duration(l.Burst) }

// lease is how many requests a replica may admit before it has settled them.
func (l Limit) lease() int64 { return int64(max(1, min(l.Burst, l.Requests)/leaseShare)) }

// spend decides on one request against a bucket that will be full again at full.
// It gives the bucket afterwards; a refused request costs nothing, and wait is
// how long until one would be admitted.
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

// remaining is how many requests a bucket would admit now.
func (l Limit) remaining(full, now time.Time) int {
	return int(max(0, l.tolerance()-max(0, full.Sub(now))) / l.interval())
}
