// Package threshold tells organizations that a limit of a plan is nearly or wholly used up, and that their credits are.
//
// A [Watcher] in the role control compares what the stores have counted for good with the limits of those that were
// active lately, so that the way of a call has no part in it. What it finds is recorded once for each organization or
// key, limit and window, under an id that follows from these, and relayed to webhook-egress from there.
package threshold

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/platform/houseevent"
)

// The percentages of a limit that are told. Of a limit of a minute only the last one is, once an hour at most.
const (
	near = 80
	full = 100
)

// Holder is an organization, or one of its keys with a plan of its own.
type Holder struct {
	Organization string
	// Key is the first of its rotations, empty for the organization.
	Key  string
	Plan string
}

func (h Holder) subject() string {
	if h.Key != "" {
		return "key/" + h.Key
	}
	return "organization/" + h.Organization
}

// Exhausted is an organization that has nothing left of its credits.
type Exhausted struct {
	Organization, Plan string
	// LastGrant is the grant that was made last.
	LastGrant string
	// Uncovered is what was spent without credits, in pico-USD.
	Uncovered int64
}

// Event is what an organization is told.
type Event struct {
	// ID is the same for the same event, on each replica that finds it.
	ID, Organization, Type, Subject string
	// Data is a JSON object.
	Data []byte
	// Keep is the end of the time for which the event is remembered.
	Keep time.Time
}

// remembered is how long an event is kept after the end of what it is about. That is longer than windows are looked at.
const remembered = 40 * 24 * time.Hour

// reachedData is the data of houseevent.QuotaReached.
type reachedData struct {
	Organization string      `json:"organization_id"`
	Key          string      `json:"key_id"`
	Plan         string      `json:"plan"`
	Limit        plan.Meter  `json:"limit"`
	Window       plan.Period `json:"window"`
	LimitValue   int64       `json:"limit_value"`
	Used         int64       `json:"used"`
	Percent      int64       `json:"percent"`
	Kind         plan.Kind   `json:"kind"`
	PeriodStart  time.Time   `json:"period_start"`
}

// exhaustedData is the data of houseevent.CreditsExhausted.
type exhaustedData struct {
	Organization string `json:"organization_id"`
	Plan         string `json:"plan"`
	LastGrant    string `json:"last_grant_id"`
	Uncovered    string `json:"uncovered_pico_usd"`
	Refused      bool   `json:"refused"`
}

// share returns how much of a limit is used, in percent, rounded down. Amounts above zero are at most 10^12.
func share(used, amount int64) int64 {
	if used >= amount { // used may be as large as a number can be.
		return full
	}
	return used * 100 / amount
}

// Reached returns an event for each percentage of a limit that a window has reached.
func Reached(h Holder, l plan.Limit, w quota.Window, used int64) (events []Event, err error) {
	percentages, start := []int64{near, full}, w.Start
	if l.Period == plan.Minute {
		percentages, start = percentages[1:], start.Truncate(time.Hour)
	}
	for _, percent := range percentages {
		if share(used, l.Amount) < percent {
			break
		}
		e, err := newEvent(houseevent.QuotaReached, h.Organization, h.subject(), w.End.Add(remembered), reachedData{
			Organization: h.Organization, Key: h.Key, Plan: h.Plan, Limit: l.Meter, Window: l.Period, LimitValue: l.Amount, Used: used,
			Percent: percent, Kind: l.Kind, PeriodStart: w.Start,
		}, l.Meter, l.Period, l.Kind, l.Amount, start.Unix(), percent)
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// UsedUp returns the event of an organization without credits: one for each last grant. refused reports whether its plan
// refuses calls now.
func UsedUp(x Exhausted, refused bool, now time.Time) (Event, error) {
	// A grant may be the last for years: the event of it is kept for longer than an organization is looked at without a call.
	return newEvent(houseevent.CreditsExhausted, x.Organization, "organization/"+x.Organization, now.AddDate(10, 0, 0), exhaustedData{
		Organization: x.Organization, Plan: x.Plan, LastGrant: x.LastGrant, Uncovered: strconv.FormatInt(x.Uncovered, 10), Refused: refused,
	}, x.LastGrant)
}

// newEvent returns an event whose id follows from its type, organization and subject, and from what distinguishes it from
// the subject's others of this type.
func newEvent(kind, organization, subject string, keep time.Time, data any, distinction ...any) (Event, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return Event{}, fmt.Errorf("data of %s: %w", kind, err)
	}
	name, err := json.Marshal([]any{kind, organization, subject, distinction})
	if err != nil {
		return Event{}, fmt.Errorf("id of %s: %w", kind, err)
	}
	sum := sha256.Sum256(name)
	return Event{
		ID: "edge-" + hex.EncodeToString(sum[:16]), Organization: organization, Type: kind, Subject: subject, Data: text, Keep: keep,
	}, nil
}

// mostWindows bounds the windows of a limit that are looked at.
const mostWindows = 5

// windowsSince returns the latest windows of a limit that were current at some time from a moment to now.
func windowsSince(h Holder, l plan.Limit, since, now time.Time) (windows []quota.Window) {
	for at := now; len(windows) < mostWindows; {
		w := quota.WindowAt(h.Organization, h.Key, l.Meter, l.Period, at)
		windows = append(windows, w)
		if !w.Start.After(since) {
			break
		}
		at = w.Start.Add(-time.Nanosecond)
	}
	return windows
}

// pause returns how long a holder need not be looked at, by the share of its fullest limit that is not used up: what is
// far from used up is looked at from time to time.
func pause(fullest int64) time.Duration {
	if fullest < near/2 {
		return rest
	}
	return 0
}
