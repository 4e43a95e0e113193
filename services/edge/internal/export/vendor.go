package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/retryafter"
	"switchyard.dev/services/platform/secret"
)

// vendor speaks the API of a billing system.
type vendor interface {
	// batch is the largest number of events in a send.
	batch() int
	// send delivers events whose identifiers all differ. It returns the events that the vendor has taken or refused,
	// even after an error. The vendor doesn't have the other events, except that after a *lostError it may
	// have them. A *laterError says when to try again. errNoTime means that events were left out because ctx ends soon.
	send(ctx context.Context, events []Event) (settlement, error)
}

// settlement is what a vendor decided: which events it took, including those that it already had, and which it refused
// for what they are. failing are events that were lost although each had a request to itself, if nothing else failed in
// the send. lost are all events of requests that were lost, even if they were taken later in the send.
type settlement struct {
	taken   []Event
	refused []Refusal
	failing []Event
	lost    []Event
}

func (s *settlement) add(other settlement) {
	s.taken, s.refused = append(s.taken, other.taken...), append(s.refused, other.refused...)
}

// newVendor returns the vendor of a destination. It begins no request unless more than reserve is left of its context.
func newVendor(client *http.Client, d Destination, reserve time.Duration) vendor {
	p := poster{client: client, base: d.BaseURL, key: secret.NewCached(d.KeyFile, asIs), reserve: reserve}
	switch d.Kind {
	case StripeStream:
		return &stripeStream{poster: p, streamURL: d.StreamURL}
	case OpenMeter:
		return openMeter{p}
	case Lago:
		return lago{p}
	case Stripe:
	}
	return stripe{p}
}

const (
	// maxAnswer is how many bytes of an answer are read, postTime how long a request may take at most.
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

// lostError is a failure after which the vendor may have the events: the request was sent, but the answer was lost or a
// 5xx.
type lostError struct{ cause error }

func (e *lostError) Error() string { return e.cause.Error() }
func (e *lostError) Unwrap() error { return e.cause }

// isLost reports whether err is a *lostError that may concern the events of its request alone. A request that ended with
// ctx says nothing of them.
func isLost(ctx context.Context, err error) bool {
	_, lost := errors.AsType[*lostError](err)
	return lost && ctx.Err() == nil
}

// poster posts to a vendor's API.
type poster struct {
	client *http.Client
	base   string
	key    *secret.Cached[secret.Value]
	// reserve is how much time a request needs. One that ended with its context would say nothing of its events.
	reserve time.Duration
}

// errNoTime is the error of a request that was not made because its context ends too soon.
var errNoTime = errors.New("the step has no time left; the remaining events follow in the next one")

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
	return p.postTo(ctx, p.base+path, key, contentType, body, header)
}

// postTo posts to a URL with a key, as post does.
func (p poster) postTo(
	ctx context.Context, to string, key secret.Value, contentType string, body io.Reader, header http.Header,
) (answer, error) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= p.reserve {
		return answer{}, errNoTime
	}
	ctx, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, body)
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Authorization", "Bearer "+key.Reveal())
	maps.Copy(r.Header, header)
	var sent atomic.Bool // written by the connection's own goroutine
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	got, err := p.client.Do(r.WithContext(httptrace.WithClientTrace(ctx, trace)))
	switch {
	case err != nil && sent.Load():
		return answer{}, &lostError{err}
	case err != nil:
		return answer{}, err
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(got.Body, maxAnswer))
	switch status := got.StatusCode; {
	case status/100 == 2: // even if its body can't be read
		return answer{status, text}, nil
	case err != nil:
		return answer{}, &lostError{err}
	case status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge, status == http.StatusUnprocessableEntity:
		return answer{status, text}, nil
	default:
		after := retryafter.Parse(got.Header.Get("Retry-After"), time.Now(), maxWait)
		err := &laterError{status, reason(string(text)), after}
		if status >= http.StatusInternalServerError {
			return answer{}, &lostError{err}
		}
		return answer{}, err
	}
}

func (a answer) taken() bool { return a.status/100 == 2 }

// after returns how long to wait after an error: the longest wait that a vendor asks for in it, at least the back-off.
func after(err error, backoff time.Duration) time.Duration {
	if several, ok := errors.AsType[joined](err); ok {
		for _, one := range several.Unwrap() {
			backoff = after(one, backoff)
		}
		return backoff
	}
	if later, ok := errors.AsType[*laterError](err); ok {
		return max(later.after, backoff)
	}
	return backoff
}

// joined is an error that wraps several.
type joined interface {
	error
	Unwrap() []error
}

func asIs(v secret.Value) secret.Value { return v }
