package event

import (
	"encoding/json"
	"fmt"
	"time"
)

// source is the source of the service's own events.
const source = "/switchyard/webhook-egress"

// structuredType is the media type of a CloudEvent in structured JSON.
const structuredType = "application/cloudevents+json"

// cloudEvent is an event in the form of CloudEvents 1.0.
type cloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            time.Time       `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	Data            json.RawMessage `json:"data"`
}

func newCloudEvent(id, source, eventType, subject string, at time.Time, data []byte) cloudEvent {
	return cloudEvent{
		SpecVersion: "1.0", ID: id, Source: source, Type: eventType, Subject: subject, Time: at.UTC(),
		DataContentType: "application/json", Data: data,
	}
}

// structured returns the event as one JSON object (CloudEvents 1.0, JSON format, section 3).
func (c cloudEvent) structured() ([]byte, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("cloud event: %w", err)
	}
	return text, nil
}

// headers returns the attributes as headers beside a body that is the data alone (CloudEvents 1.0, HTTP binding,
// section 3.1). The attributes are printable ASCII.
func (c cloudEvent) headers() map[string]string {
	return map[string]string{
		"Ce-Specversion": c.SpecVersion, "Ce-Id": c.ID, "Ce-Source": c.Source, "Ce-Type": c.Type, "Ce-Subject": c.Subject,
		"Ce-Time": c.Time.Format(time.RFC3339Nano),
	}
}
