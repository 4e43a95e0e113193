package export

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
)

// lago sends batches of events (https://getlago.com/docs/api-reference/events/batch). Lago refuses a transaction_id that
// it has; it takes or refuses a batch as a whole, and names the events that it refuses.
type lago struct{ poster }

const lagoBatch = 100

func (lago) batch() int { return lagoBatch }

type lagoEvent struct {
	Transaction  string         `json:"transaction_id"`
	Subscription string         `json:"external_subscription_id"`
	Code         string         `json:"code"`
	Timestamp    int64          `json:"timestamp"`
	Properties   lagoProperties `json:"properties"`
}

type lagoProperties struct {
	Value string `json:"value"`
}

// lagoBody returns the body of a request.
func lagoBody(events []Event) ([]byte, error) {
	var body struct {
		Events []lagoEvent `json:"events"`
	}
	body.Events = make([]lagoEvent, len(events))
	for i, e := range events {
		body.Events[i] = lagoEvent{
			Transaction: e.Identifier, Subscription: e.Customer, Code: e.Name, Timestamp: e.At.Unix(),
			Properties: lagoProperties{e.Amount},
		}
	}
	return json.Marshal(body)
}

func (l lago) send(ctx context.Context, events []Event) (settlement, error) {
	return sendAll(ctx, events, func(ctx context.Context, events []Event) (verdict, error) {
		body, err := lagoBody(events)
		if err != nil {
			return verdict{}, fmt.Errorf("encode events: %w", err)
		}
		a, err := l.post(ctx, "/api/v1/events/batch", "application/json", bytes.NewReader(body), nil)
		if err != nil || a.taken() {
			return verdict{taken: err == nil}, err
		}
		return lagoVerdict(a, len(events)), nil
	})
}

// lagoVerdict reads a refusal: its error_details have the faults by the index of an event.
func lagoVerdict(a answer, events int) verdict {
	v := verdict{unacceptable: make(map[int]string), reason: fmt.Sprintf("status %d", a.status)}
	var body struct {
		Code    string                     `json:"code"`
		Details map[string]json.RawMessage `json:"error_details"`
	}
	if json.Unmarshal(a.text, &body) != nil {
		return v
	}
	if body.Code != "" {
		v.reason = reason(body.Code)
	}
	for index, faults := range body.Details {
		if i, err := strconv.Atoi(index); err == nil && i >= 0 && i < events {
			v.unacceptable[i] = lagoReason(faults)
		}
	}
	return v
}

// lagoReason returns why an event is refused; empty if Lago has it already.
func lagoReason(faults json.RawMessage) string {
	var fields map[string][]string
	if json.Unmarshal(faults, &fields) == nil && len(fields) == 1 && len(fields["transaction_id"]) == 1 &&
		fields["transaction_id"][0] == "value_already_exist" {
		return ""
	}
	return reason(string(faults))
}
