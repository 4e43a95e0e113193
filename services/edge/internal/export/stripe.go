package export

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// stripe sends billing meter events, one a request (https://docs.stripe.com/api/billing/meter-event/create). Stripe
// enforces the uniqueness of identifiers for at least 24 hours, takes whole numbers only, timestamps of the past 35 days
// only, and one request at a time for each customer and meter.
type stripe struct{ poster }

const (
	stripeBatch = 100
	// stripeRequests bounds the requests at once; Stripe takes 1000 a second.
	stripeRequests = 8
)

func (stripe) batch() int { return stripeBatch }

func (s stripe) send(ctx context.Context, events []Event) (refused []Refusal, err error) {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(stripeRequests)
	for _, one := range byMeter(events) {
		group.Go(func() error {
			for _, e := range one {
				why, err := s.sendOne(ctx, e)
				if err != nil {
					return err
				}
				if why != "" {
					mu.Lock()
					refused = append(refused, Refusal{Event: e, Reason: why})
					mu.Unlock()
				}
			}
			return nil
		})
	}
	err = group.Wait()
	slices.SortFunc(refused, func(a, b Refusal) int { return strings.Compare(a.Identifier, b.Identifier) })
	return refused, err
}

// byMeter returns the events of each customer and meter, in order.
func byMeter(events []Event) (groups [][]Event) {
	type meter struct{ customer, name string }
	places := make(map[meter]int)
	for _, e := range events {
		m := meter{e.Customer, e.Name}
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

// sendOne sends an event and returns why it was refused, if it was. The idempotency key has Stripe repeat its first
// answer for a day, so that an event that is sent again is not an error.
func (s stripe) sendOne(ctx context.Context, e Event) (why string, err error) {
	if !whole(e.Amount) {
		return "the value must be a whole number", nil
	}
	a, err := s.post(ctx, "/v1/billing/meter_events", "application/x-www-form-urlencoded", strings.NewReader(stripeForm(e)),
		http.Header{"Idempotency-Key": {e.Identifier}})
	if err != nil || a.taken() {
		return "", err
	}
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(a.text, &body) // An answer in another form has no message.
	switch message := body.Error.Message; {
	case message == "":
		return "status " + strconv.Itoa(a.status), nil
	case isKnown(message):
		return "", nil
	default:
		return reason(message), nil
	}
}

// isKnown reports whether Stripe refuses an event because it has its identifier. The error has no code of its own.
func isKnown(message string) bool {
	return strings.Contains(message, "event already exists with identifier")
}
