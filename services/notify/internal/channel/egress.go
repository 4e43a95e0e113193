package channel

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

const (
	// minAsk and maxAsk bound the polling of a delivery; the interval is a tenth of its age.
	minAsk, maxAsk = 500 * time.Millisecond, time.Minute
	// egressMargin is how much earlier webhook egress gives up a delivery than this service, so that its end is still
	// read.
	egressMargin = 2 * time.Minute
)

// Delivery is a webhook for webhook egress to deliver.
type Delivery struct {
	Organization, URL, EventType string
	Payload                      []byte
	// Key identifies the delivery, so that a repeated call creates no second one.
	Key string
	// Deadline is the time after which no attempt begins.
	Deadline time.Time
}

// DeliveryState is the state of a Delivery.
type DeliveryState struct {
	Ended, Delivered bool
	// Code is the receiver's last status, zero for none; Class is that of the last failure.
	Code  int
	Class Class
}

// EgressError is the failure of a call to webhook egress.
type EgressError struct {
	// Kind is RetryAfter, Permanent or Auth.
	Kind  Kind
	Class Class
	// Text is that of a refusal.
	Text  string
	After time.Duration
}

// Error returns a text that names the class.
func (e *EgressError) Error() string { return "webhook egress: " + string(e.Class) }

// Egress enqueues deliveries and reads their state. Its errors are *EgressError.
type Egress interface {
	Enqueue(ctx context.Context, d Delivery) (id string, err error)
	Delivery(ctx context.Context, organization, id string) (DeliveryState, error)
}

// EgressWebhook is the webhook channel through webhook egress, which signs, guards and retries. The recipient follows
// its delivery until that ends. EgressWebhook is Sender and Transport; a repeated attempt creates no second delivery.
type EgressWebhook struct {
	checker URLChecker
	egress  Egress
	address string
	now     func() time.Time
}

// NewEgressWebhook returns the channel; address is that of webhook egress, for the breaker.
func NewEgressWebhook(checker URLChecker, egress Egress, address string, now func() time.Time) *EgressWebhook {
	return &EgressWebhook{checker, egress, address, now}
}

// Channel returns Webhook.
func (*EgressWebhook) Channel() Name { return Webhook }

// Prepare implements Sender.
func (e *EgressWebhook) Prepare(_ context.Context, m Message) (Work, error) {
	work, _, err := prepareWebhook(e.checker, m)
	if err != nil {
		return Work{}, err
	}
	work.Destination = "grpc://" + e.address
	return work, nil
}

// Deliver implements Transport.
func (e *EgressWebhook) Deliver(ctx context.Context, t Task) Outcome {
	if t.DeliveryID != "" {
		return e.follow(ctx, t)
	}
	var work webhookWork
	if err := json.Unmarshal(t.Work, &work); err != nil {
		return Unsent(Failed(ClassUnreadable, 0, ""))
	}
	deadline := t.Deadline
	if t.Deadline.Sub(t.AcceptedAt) > 2*egressMargin {
		deadline = deadline.Add(-egressMargin)
	}
	id, err := e.egress.Enqueue(ctx, Delivery{
		Organization: t.Organization, URL: work.URL, EventType: eventType, Payload: work.Payload,
		Key: "notify:" + t.Notification.String(), Deadline: deadline,
	})
	if err != nil {
		return egressOutcome(err, work.URL)
	}
	return HandedOver(id, minAsk)
}

// follow reads the state of the delivery.
func (e *EgressWebhook) follow(ctx context.Context, t Task) Outcome {
	state, err := e.egress.Delivery(ctx, t.Organization, t.DeliveryID)
	wait := min(max(e.now().Sub(t.AcceptedAt)/10, minAsk), maxAsk)
	failed, _ := errors.AsType[*EgressError](err)
	switch {
	case err == nil && state.Delivered:
		return Delivered(state.Code)
	case err == nil && state.Ended:
		return Failed(state.Class, state.Code, "")
	case failed != nil && failed.Kind == Permanent:
		return egressOutcome(err, "")
	}
	o := HandedOver(t.DeliveryID, wait) // Also when the call failed: webhook egress has the delivery.
	o.HostFailed = err != nil
	return o
}

// egressOutcome returns the outcome of a failed call. Every call may be repeated, because of its key.
func egressOutcome(err error, target string) Outcome {
	failed, ok := errors.AsType[*EgressError](err)
	if !ok {
		failed = &EgressError{Kind: RetryAfter, Class: ClassConnect}
	}
	if failed.Kind == Permanent {
		return Failed(failed.Class, 0, Detail(failed.Text, target))
	}
	if failed.Kind == Auth {
		return Denied(failed.Class, 0, false)
	}
	o := Retry(failed.Class, 0, failed.After)
	o.HostFailed = failed.Class != ClassRate
	return o
}
