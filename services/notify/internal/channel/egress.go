package channel

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

const (
	// A delivery is asked about as often as a tenth of its age allows.
	minAsk, maxAsk = 500 * time.Millisecond, time.Minute
	// egressMargin is how much earlier egress gives a delivery up than we do, so
	// that its end is still read.
	egressMargin = 2 * time.Minute
)

// Delivery is a webhook for webhook egress to deliver.
type Delivery struct {
	Organization, URL, EventType string
	Payload                      []byte
	// Key makes a repeat of the call the same delivery.
	Key string
	// Deadline after which no attempt begins.
	Deadline time.Time
}

// DeliveryState is what became of one.
type DeliveryState struct {
	Ended, Delivered bool
	// Code of the receiver's last answer, zero for none; Class of the last failure.
	Code  int
	Class Class
}

// EgressError is why a call of webhook egress failed.
type EgressError struct {
	// Kind is RetryAfter, Permanent or Auth.
	Kind  Kind
	Class Class
	// Text of a refusal.
	Text  string
	After time.Duration
}

// Error names the class.
func (e *EgressError) Error() string { return "webhook egress: " + string(e.Class) }

// Egress enqueues deliveries and tells what became of them. Its errors are *EgressError.
type Egress interface {
	Enqueue(ctx context.Context, d Delivery) (id string, err error)
	Delivery(ctx context.Context, organization, id string) (DeliveryState, error)
}

// EgressWebhook is the webhook channel through webhook egress, which signs,
// guards and retries; our row follows its delivery until that ends. It is Sender
// and Transport, and a repeated attempt is no second delivery.
type EgressWebhook struct {
	checker URLChecker
	egress  Egress
	address string
	now     func() time.Time
}

// NewEgressWebhook returns the channel; address is that of webhook egress, for
// the breaker.
func NewEgressWebhook(checker URLChecker, egress Egress, address string, now func() time.Time) *EgressWebhook {
	return &EgressWebhook{checker, egress, address, now}
}

// Channel is Webhook.
func (*EgressWebhook) Channel() Name { return Webhook }

// Prepare implements Sender.
func (e *EgressWebhook) Prepare(_ context.Context, m Message) (Work, error) {
	work, _, err := prepareWebhook(e.checker, m)
	if err != nil {
		return Work{}, err
	}
	return Work{Channel: Webhook, Body: work, Destination: "grpc://" + e.address}, nil
}

// Deliver implements Transport.
func (e *EgressWebhook) Deliver(ctx context.Context, t Task) Outcome {
	if t.DeliveryID != "" {
		return e.follow(ctx, t)
	}
	var work webhookWork
	if err := json.Unmarshal(t.Work, &work); err != nil {
		return Failed(ClassUnreadable, 0, "")
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

// follow asks what became of the delivery.
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
	o := HandedOver(t.DeliveryID, wait) // Also when it can't be asked: it is in good hands.
	o.HostFailed = err != nil
	return o
}

// egressOutcome reads a failed call. No call is lost: its key makes a repeat safe.
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
