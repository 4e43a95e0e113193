package export

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// openMeter sends batches of CloudEvents 1.0 (https://openmeter.io/docs/metering/events/overview). OpenMeter drops events
// whose id and source it has, and takes or refuses a batch as a whole.
type openMeter struct{ poster }

const openMeterBatch = 100

func (openMeter) batch() int { return openMeterBatch }

type cloudEvent struct {
	SpecVersion string         `json:"specversion"`
	Type        string         `json:"type"`
	ID          string         `json:"id"`
	Source      string         `json:"source"`
	Subject     string         `json:"subject"`
	Time        string         `json:"time"`
	Data        cloudEventData `json:"data"`
}

// cloudEventData holds the value as text, because a number may lose digits on the way.
type cloudEventData struct {
	Value string `json:"value"`
}

// openMeterBody returns the body of a request.
func openMeterBody(events []Event) ([]byte, error) {
	batch := make([]cloudEvent, len(events))
	for i, e := range events {
		batch[i] = cloudEvent{
			SpecVersion: "1.0", Type: e.Name, ID: e.Identifier, Source: "switchyard/" + string(e.Source), Subject: e.Customer,
			Time: e.At.UTC().Format(time.RFC3339Nano), Data: cloudEventData{e.Amount},
		}
	}
	return json.Marshal(batch)
}

func (o openMeter) send(ctx context.Context, events []Event) (settlement, error) {
	return sendAll(ctx, events, func(ctx context.Context, events []Event) (verdict, error) {
		body, err := openMeterBody(events)
		if err != nil {
			return verdict{}, fmt.Errorf("encode events: %w", err)
		}
		a, err := o.post(ctx, "/api/v1/events", "application/cloudevents-batch+json", bytes.NewReader(body), nil)
		if err != nil {
			return verdict{}, err
		}
		return verdict{taken: a.taken(), reason: problem(a)}, nil
	})
}

// problem returns why an answer refuses a request (RFC 9457).
func problem(a answer) string {
	var body struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal(a.text, &body) != nil || body.Title+body.Detail == "" {
		return fmt.Sprintf("status %d", a.status)
	}
	if body.Detail == "" {
		return reason(body.Title)
	}
	return reason(body.Title + ": " + body.Detail)
}
