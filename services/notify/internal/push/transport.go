package push

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/webpush"
)

// The failure classes that only web push has.
const (
	ClassGone        channel.Class = "subscription_gone"
	ClassMissing     channel.Class = "not_registered"
	ClassQuarantined channel.Class = "quarantined"
	ClassMismatch    channel.Class = "vapid_key_mismatch"
	ClassNoKey       channel.Class = "vapid_key_missing"
	ClassTooLarge    channel.Class = "payload_too_large"
)

// Sealed is a registered device with the data needed to push to it.
type Sealed struct {
	ID           uuid.UUID
	Organization string
	Digest       []byte // of the endpoint
	// Text holds the endpoint and the keys, encrypted.
	Text   []byte
	KeyID  string
	Status Status
	// User is the device's present user; empty for none. ByUser reports whether this user registered it with the user's own
	// token or session.
	User   string
	ByUser bool
	// Revision is that of its registration.
	Revision int64
}

// DeviceStore is the store of devices as a Transport uses it.
type DeviceStore interface {
	// Device returns a registered device, or ErrNotFound.
	Device(ctx context.Context, id uuid.UUID) (Sealed, error)
	// Remove deletes a device, unless it has registered again.
	Remove(ctx context.Context, id uuid.UUID, revision int64) error
	// Quarantine marks a device as unusable, unless it has registered again.
	Quarantine(ctx context.Context, id uuid.UUID, revision int64) error
}

// Pusher makes one push, as webpush.Client does.
type Pusher interface {
	Push(ctx context.Context, key webpush.Key, from *webpush.Sender, to webpush.Subscription, m webpush.Message) (webpush.Answer, error)
}

// Transport makes pushes. It is safe for concurrent use.
type Transport struct {
	devices DeviceStore
	keys    Keys
	box     Box
	pusher  Pusher
	shared  *senders
	hosts   *hostLimiter
	now     func() time.Time

	rejections *Rejections
}

// NewTransport returns the transport of web_push. At most perHost pushes to one push service are in flight. Answers about
// keys go to rejections.
func NewTransport(devices DeviceStore, keys Keys, box Box, pusher Pusher, perHost int, rejections *Rejections) *Transport {
	return &Transport{
		devices: devices, keys: keys, box: box, pusher: pusher,
		shared: newSenders(), hosts: newHostLimiter(perHost), now: time.Now, rejections: rejections,
	}
}

// recipient is a device with its decrypted subscription.
type recipient struct {
	Sealed

	subscription webpush.Subscription
}

// A push waits for a place at its push service for placeWait at most, so that it has time left for the answer. Without
// a place it begins again after placeDelay.
const placeWait, placeDelay = 2 * time.Second, 250 * time.Millisecond

// Deliver pushes to one device.
func (t *Transport) Deliver(ctx context.Context, task channel.Task) channel.Outcome {
	w, err := readWork(task.Work)
	if err != nil {
		return channel.Unsent(channel.Failed(channel.ClassUnreadable, 0, ""))
	}
	to, refusal := t.recipient(ctx, task, w)
	if refusal != nil {
		return channel.Unsent(*refusal)
	}
	key, ok := t.keys.Keys().Find(to.KeyID)
	if !ok {
		return channel.Unsent(channel.Denied(ClassNoKey, 0, false))
	}
	from, err := t.sender(task.Notification, w)
	if err != nil {
		return channel.Unsent(channel.Retry(channel.ClassPanic, 0, 0))
	}
	waiting, stop := context.WithTimeout(ctx, placeWait)
	defer stop()
	leave, err := t.hosts.enter(waiting, to.subscription.Endpoint().Origin(), task.Organization)
	if err != nil {
		return channel.Crowded(placeDelay)
	}
	began := t.now()
	answer, err := t.pusher.Push(ctx, key, from, to.subscription, webpush.Message{
		Text: w.contentFor(&to.Sealed).Of(task.Notification, w.Tag), TTL: w.TTL, Urgency: webpush.Urgency(w.Urgency), Topic: w.Topic,
	})
	leave()
	if err != nil {
		return channel.Unsent(channel.Failed(channel.ClassUnreadable, 0, ""))
	}
	t.note(KeyAt{to.subscription.Endpoint().Origin(), key.ID()}, answer, began)
	outcome := t.learn(ctx, task, to, answer)
	outcome.Replaced = task.Update && outcome.Kind == channel.OK // The device replaces what has the same tag.
	return outcome
}

// note tells what an answer says about the key that signed its push.
func (t *Transport) note(key KeyAt, a webpush.Answer, began time.Time) {
	switch a.Verdict {
	case webpush.Unauthorized:
		t.rejections.refused(key, a.Status, began, t.now())
	case webpush.Accepted:
		t.rejections.accepted(key)
	default: // says nothing about the key
	}
}

// recipient returns the device of a task, or the outcome if there is nothing to send to.
func (t *Transport) recipient(ctx context.Context, task channel.Task, w work) (recipient, *channel.Outcome) {
	r := recipient{Sealed: Sealed{KeyID: w.KeyID}}
	packed := w.Subscription
	if task.Subscription != nil {
		var err error
		if r.Sealed, err = t.devices.Device(ctx, *task.Subscription); errors.Is(err, ErrNotFound) {
			return r, new(channel.Failed(ClassMissing, 0, ""))
		} else if err != nil {
			return r, new(channel.Retry(channel.ClassPanic, 0, 0))
		}
		if w.User != "" && r.User != w.User { // Another user has registered the browser since.
			return r, new(channel.Failed(ClassMissing, 0, ""))
		}
		if r.Status != Active {
			return r, new(channel.Failed(ClassQuarantined, 0, ""))
		}
		if packed, err = t.box.Open(r.Text, owner(r.Organization, r.Digest)); err != nil {
			return r, new(channel.Failed(channel.ClassUnreadable, 0, ""))
		}
	}
	var err error
	if r.subscription, err = webpush.FromBytes(packed); err != nil {
		return r, new(channel.Failed(channel.ClassUnreadable, 0, ""))
	}
	return r, nil
}

func (t *Transport) sender(send uuid.UUID, w work) (*webpush.Sender, error) {
	if w.Broadcast {
		return t.shared.of(send, t.now())
	}
	return webpush.NewSender()
}

// learn stores what a response says about the device, then returns the outcome. If storing fails, the next push
// brings the same response.
func (t *Transport) learn(ctx context.Context, task channel.Task, to recipient, a webpush.Answer) channel.Outcome {
	if task.Subscription == nil {
		return Outcome(a)
	}
	var err error
	switch a.Verdict {
	case webpush.Gone:
		err = t.devices.Remove(ctx, to.ID, to.Revision)
	case webpush.Mismatch:
		err = t.devices.Quarantine(ctx, to.ID, to.Revision)
	default: // says nothing about the device
	}
	if err != nil {
		return channel.Retry(channel.ClassPanic, a.Status, 0)
	}
	return Outcome(a)
}

// Outcome converts a push service's response to an outcome.
func Outcome(a webpush.Answer) channel.Outcome {
	switch a.Verdict {
	case webpush.Accepted:
		return channel.Delivered(a.Status)
	case webpush.Gone:
		return channel.Removed(ClassGone, a.Status)
	case webpush.Mismatch:
		return channel.Denied(ClassMismatch, a.Status, true)
	case webpush.Unauthorized:
		o := channel.Denied(channel.ClassCredential, a.Status, false)
		o.Detail, o.After = a.Reason, a.RetryAfter
		return o
	case webpush.Lost:
		o := channel.Lost(lostClass(a))
		o.HostFailed = true
		return o
	case webpush.Retry:
		return retry(a)
	case webpush.Refused:
	}
	return refused(a)
}

func retry(a webpush.Answer) channel.Outcome {
	o := channel.Retry(lostClass(a), a.Status, a.RetryAfter)
	switch {
	case a.Status >= 500:
		o.Class = channel.ClassServer
	case a.Status != 0:
		o.Class = channel.ClassRate
	default:
		o.HostFailed = true
	}
	if a.Status != 0 {
		o.Detail = a.Reason
	}
	return o
}

func lostClass(a webpush.Answer) channel.Class {
	if a.Reason == webpush.ReasonConnection {
		return channel.ClassConnect
	}
	return channel.ClassTimeout
}

func refused(a webpush.Answer) channel.Outcome {
	class := channel.ClassClient
	switch {
	case a.Status == 0:
		return channel.Unsent(channel.Failed(channel.ClassTarget, 0, a.Reason))
	case a.Status == 413:
		class = ClassTooLarge
	case a.Status < 400:
		class = channel.ClassRedirect
	}
	return channel.Failed(class, a.Status, a.Reason)
}
