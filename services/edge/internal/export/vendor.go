package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"switchyard.dev/services/platform/retryafter"
	"switchyard.dev/services/platform/secret"
)

// vendor speaks the API of a billing system.
type vendor interface {
	// batch is the largest number of events in a send.
	batch() int
	// send delivers events that have no identifier twice. It returns those that were refused for what they are; events
	// that the vendor has already are taken. After an error any of them may have been delivered; a *laterError says when
	// to try again.
	send(ctx context.Context, events []Event) (refused []Refusal, err error)
}

// newVendor returns the vendor of a destination.
func newVendor(client *http.Client, d Destination) vendor {
	p := poster{client: client, base: d.BaseURL, key: secret.NewCached(d.KeyFile, asIs)}
	switch d.Kind {
	case OpenMeter:
		return openMeter{p}
	case Lago:
		return lago{p}
	case Stripe:
	}
	return stripe{p}
}

const (
	// maxAnswer is how many bytes of an answer are read, postTime how long a request may take.
	maxAnswer = 64 << 10
	postTime  = 20 * time.Second
	// maxWait bounds the wait that a vendor may ask for.
	maxWait = time.Hour
)

// laterError is a failure that says nothing of the events: they are sent again.
type laterError struct {
	status int
	reason string
	// after is how long the vendor asks to wait; zero if it doesn't say.
	after time.Duration
}

func (e *laterError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.reason) }

// poster posts to a vendor's API.
type poster struct {
	client *http.Client
	base   string
	key    *secret.Cached[secret.Value]
}

// answer is the answer to a post that was taken or refused for its content.
type answer struct {
	status int
	text   []byte
}

// post sends a body. It returns the vendor's answer if that decides: 2xx, or 400, 413 and 422, which refuse the content.
// Anything else, an unaccepted key too, is an error.
func (p poster) post(ctx context.Context, path, contentType string, body io.Reader, header http.Header) (answer, error) {
	key, _, err := p.key.Read()
	if err != nil {
		return answer{}, fmt.Errorf("key_file: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+path, body)
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Authorization", "Bearer "+key.Reveal())
	maps.Copy(r.Header, header)
	got, err := p.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(got.Body, maxAnswer))
	if err != nil {
		return answer{}, err
	}
	switch status := got.StatusCode; {
	case status/100 == 2, status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge, status == http.StatusUnprocessableEntity:
		return answer{status, text}, nil
	default:
		after := retryafter.Parse(got.Header.Get("Retry-After"), time.Now(), maxWait)
		return answer{}, &laterError{status, reason(string(text)), after}
	}
}

func (a answer) taken() bool { return a.status/100 == 2 }

// verdict is what a vendor said of a batch: it took all, or none, because of some of them or for an unknown part.
type verdict struct {
	taken bool
	// unacceptable has the reasons by the index of an event; an empty reason means that the vendor has the event already.
	unacceptable map[int]string
	// reason is why the vendor refuses a batch without saying which event it means.
	reason string
}

// sendAll has a vendor take a batch of which it takes all or none: it leaves out the events that the vendor names, and
// halves a batch in which it names none. It posts less than three times for each event.
func sendAll(ctx context.Context, events []Event, post func(context.Context, []Event) (verdict, error)) (refused []Refusal, err error) {
	for len(events) > 0 {
		v, err := post(ctx, events)
		switch {
		case err != nil:
			return refused, err
		case v.taken:
			return refused, nil
		case len(v.unacceptable) > 0:
			var more []Refusal
			events, more = without(events, v.unacceptable)
			refused = append(refused, more...)
		case len(events) == 1:
			return append(refused, Refusal{Event: events[0], Reason: v.reason}), nil
		default:
			half, err := sendAll(ctx, events[:len(events)/2], post)
			refused = append(refused, half...)
			if err != nil {
				return refused, err
			}
			events = events[len(events)/2:]
		}
	}
	return refused, nil
}

// without returns the events that are acceptable and those that are refused.
func without(events []Event, unacceptable map[int]string) (rest []Event, refused []Refusal) {
	for i, e := range events {
		switch why, out := unacceptable[i]; {
		case !out:
			rest = append(rest, e)
		case why != "":
			refused = append(refused, Refusal{Event: e, Reason: why})
		}
	}
	return rest, refused
}

// after returns how long to wait after an error: what the vendor asks for, at least the back-off.
func after(err error, backoff time.Duration) time.Duration {
	if later, ok := errors.AsType[*laterError](err); ok {
		return max(later.after, backoff)
	}
	return backoff
}

func asIs(v secret.Value) secret.Value { return v }
