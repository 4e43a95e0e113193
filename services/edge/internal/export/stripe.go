package export

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// stripe sends billing meter events, one a request (https://docs.stripe.com/api/billing/meter-event/create). Stripe
// enforces the uniqueness of identifiers for at least 24 hours, takes whole numbers only, timestamps of the past 35 days
// only, and one request at a time for each customer and meter.
type stripe struct{ poster }

const (
	// stripeBatch is a whole page, so that no customer's events keep others' out of a send.
	stripeBatch = 100 * maxMeters
	// stripeRequests bounds the requests at once; Stripe takes 1000 a second.
	stripeRequests = 8
)

func (stripe) batch() int { return stripeBatch }

// send sends the events of several customers and meters at once. A request that is lost holds up only the events of the
// same customer and meter; any other failure holds up all events that follow.
func (s stripe) send(ctx context.Context, events []Event) (settlement, error) {
	var mu sync.Mutex
	var done settlement
	var errs []error
	var stopped, late atomic.Bool
	var group errgroup.Group
	group.SetLimit(stripeRequests)
	for _, one := range byMeter(events) {
		group.Go(func() error {
			for _, e := range one {
				if stopped.Load() || late.Load() {
					return nil
				}
				why, err := s.sendOne(ctx, e)
				mu.Lock()
				switch {
				case errors.Is(err, errNoTime):
					late.Store(true)
				case isLost(ctx, err):
					errs, done.failing, done.lost = append(errs, err), append(done.failing, e), append(done.lost, e)
				case err != nil:
					errs = append(errs, err)
					stopped.Store(true)
				case why != "":
					done.refused = append(done.refused, Refusal{Event: e, Reason: why})
				default:
					done.taken = append(done.taken, e)
				}
				mu.Unlock()
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	_ = group.Wait() // The errors are in errs.
	if stopped.Load() {
		done.failing = nil
	}
	if late.Load() {
		errs = append(errs, errNoTime)
	}
	slices.SortFunc(done.refused, func(a, b Refusal) int { return strings.Compare(a.Identifier, b.Identifier) })
	return done, errors.Join(errs...)
}

// byMeter returns the events of each customer and meter, in order.
func byMeter(events []Event) (groups [][]Event) {
	places := make(map[customerMeter]int)
	for _, e := range events {
		m := customerMeter{e.Customer, e.Name}
		place, ok := places[m]
		if !ok {
			place = len(groups)
			places[m], groups = place, append(groups, nil)
		}
		groups[place] = append(groups[place], e)
	}
	return groups
}

// stripeForm returns the body of a request.
func stripeForm(e Event) string {
	return url.Values{
		"event_name": {e.Name}, "identifier": {e.Identifier}, "timestamp": {strconv.FormatInt(e.At.Unix(), 10)},
		"payload[stripe_customer_id]": {e.Customer}, "payload[value]": {e.Amount},
	}.Encode()
}

// sendOne sends an event and returns why it was refused, if it was. For a day, Stripe repeats its first answer to an
// idempotency key, even a 400 or 500, so each try has a new key. The key covers only what the transport sends again. An
// event counts once because of its identifier.
func (s stripe) sendOne(ctx context.Context, e Event) (why string, err error) {
	if !whole(e.Amount) {
		return "the value must be a whole number", nil
	}
	a, err := s.post(ctx, "/v1/billing/meter_events", "application/x-www-form-urlencoded", strings.NewReader(stripeForm(e)),
		http.Header{"Idempotency-Key": {rand.Text()}})
	if err != nil || a.taken() {
		return "", err
	}
	if why := stripeReason(a); !isKnown(why) {
		return why, nil
	}
	return "", nil
}

// stripeReason returns why an answer refuses a request.
func stripeReason(a answer) string {
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(a.text, &body) != nil || body.Error.Message == "" {
		return "status " + strconv.Itoa(a.status)
	}
	return reason(body.Error.Message)
}

// isKnown reports whether Stripe refuses an event because it has its identifier. The error has no code of its own.
func isKnown(message string) bool {
	return strings.Contains(message, "event already exists with identifier")
}
