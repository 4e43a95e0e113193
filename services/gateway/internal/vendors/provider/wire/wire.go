// Package wire is what the vendor dialects share of HTTP and JSON: one tuned
// transport, a JSON POST whose failures are typed, the forms of Retry-After and of
// rate limits, and reading JSON without copies. It never retries and never
// follows a redirect.
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/connpool"
	"switchyard.dev/services/platform/secret"
)

// Bounds of a vendor's answer.
const (
	// maxAnswer is the largest answer where the request says nothing of it.
	maxAnswer = 48 << 20
	maxError  = 64 << 10
	maxText   = 500
	// maxRest and restTime bound what Finish waits for.
	maxRest  = 4 << 10
	restTime = 100 * time.Millisecond
)

// NewTransport returns the way to vendors. Their base URLs are the operator's
// configuration, so any address may be dialled, and no proxy of the environment
// comes between. A call has its connection to itself: one that hangs or breaks
// takes no other call along, and one whose vendor is gone is found out while it
// is silent. What is bounded is connecting, headers and idle connections. Reading
// an answer has no limit here: the clocks of a call belong to package inference.
// TCP_NODELAY is Go's default.
func NewTransport(connectTimeout time.Duration) *connpool.Pool {
	dialer := &net.Dialer{KeepAliveConfig: keepAlive}
	return connpool.New(connpool.Options{Dial: dialer.DialContext, ConnectTime: connectTimeout, IdlePerHost: idlePerHost})
}

// keepAlive finds a peer that is gone half a minute after its last word.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// idlePerHost connections stay: as many as one vendor may have calls under way.
const idlePerHost = 1024

// Base reads the base URL of a vendor.
func Base(raw string) (*url.URL, error) {
	base, err := url.Parse(raw)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return nil, errors.New("base_url: must be an absolute http or https URL")
	case base.User != nil || base.Query().Has("key"):
		return nil, errors.New("base_url: holds a key, which belongs in the key file")
	}
	base.Path = strings.TrimRight(base.Path, "/")
	return base, nil
}

// Classify names the class of a vendor's refusal from its status and body. It
// may fill in Code, Text and RetryAfter; Status is set already.
type Classify func(e *provider.Error, header http.Header, body []byte)

// Caller posts to one vendor.
type Caller struct {
	Transport http.RoundTripper
	Classify  Classify
	// Now is the clock for dates in Retry-After.
	Now func() time.Time

	key secret.Value
}

// With returns a Caller for one call: should the vendor repeat key, the errors
// don't.
func (c *Caller) With(key secret.Value) *Caller {
	call := *c
	call.key = key
	return &call
}

// Post sends body as JSON and returns the vendor's 2xx response; a body of type
// json.RawMessage is sent byte for byte. The caller closes the response's body.
// Every error is a *provider.Error.
func (c *Caller) Post(ctx context.Context, at *url.URL, header http.Header, body any) (*http.Response, error) {
	text, err := encode(body)
	if err != nil {
		return nil, Unencodable(err)
	}
	header.Set("Content-Type", "application/json")
	request := (&http.Request{
		Method: http.MethodPost, URL: at, Host: at.Host, Header: header,
		Body: &outgoing{bytes.NewReader(text), provider.ReceiptOf(ctx)}, ContentLength: int64(len(text)),
	}).WithContext(ctx)
	response, err := c.Transport.RoundTrip(request)
	if err != nil {
		return nil, Interrupted(ctx, err)
	}
	// The vendor's id of the call is recorded here for every dialect, so that an answer that can't be parsed has one too.
	if receipt := provider.ReceiptOf(ctx); receipt != nil {
		receipt.Note(c.requestID(response.Header))
	}
	if response.StatusCode/100 != 2 {
		defer response.Body.Close() //nolint:errcheck // The answer is an error already.
		return nil, c.refusal(response.StatusCode, response.Header, refusalOf(ctx, response.Body))
	}
	if coding := first(response.Header, "Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		_ = response.Body.Close()
		return nil, Malformed("the answer is in a content coding, though none was asked for", nil)
	}
	return response, nil
}

// refusalOf reads as much of an error's body as its class is read from; nothing
// where there is no memory for it.
func refusalOf(ctx context.Context, body io.Reader) []byte {
	hold := memory.FromContext(ctx)
	if hold.Charge(maxError) != nil {
		return nil
	}
	defer hold.Return(maxError)
	text, _ := io.ReadAll(io.LimitReader(body, maxError))
	return text
}

// outgoing is a request's body. A connection reads it while it writes, so that
// the one that has read all of it has sent the request.
type outgoing struct {
	*bytes.Reader

	receipt *provider.Receipt
}

func (o *outgoing) Read(p []byte) (int, error) {
	n, err := o.Reader.Read(p)
	if o.Len() == 0 {
		o.receipt.NoteSent()
	}
	return n, err
}

// WriteTo hides the reader's own, which would not say when it is through.
func (o *outgoing) WriteTo(w io.Writer) (int64, error) {
	n, err := o.Reader.WriteTo(w)
	if o.Len() == 0 {
		o.receipt.NoteSent()
	}
	return n, err
}

// Close does nothing: the body is in memory.
func (o *outgoing) Close() error { return nil }

func encode(body any) ([]byte, error) {
	if text, ok := body.(json.RawMessage); ok {
		return text, nil
	}
	return json.Marshal(body)
}

// Limits reads what a vendor's answer says is left of the rate limit.
func (c *Caller) Limits(response *http.Response) provider.Limits {
	return Limits(response.Header, c.Now())
}

// Refused types an error document that came in a 2xx answer or in a stream.
func (c *Caller) Refused(status int, body []byte) *provider.Error {
	return c.refusal(status, http.Header{}, body)
}

func (c *Caller) refusal(status int, header http.Header, body []byte) *provider.Error {
	now := c.Now()
	e := &provider.Error{
		Status: status, RetryAfter: RetryAfter(header, now), ShouldRetry: shouldRetry(header), Limits: Limits(header, now),
	}
	c.Classify(e, header, body)
	if e.Class == apierr.ClassRateLimit && e.RetryAfter == 0 {
		e.RetryAfter = resetAfter(header, now)
	}
	switch {
	case e.Text != "":
	case status >= http.StatusMultipleChoices:
		e.Text = "the provider answered with status " + strconv.Itoa(status)
	default:
		e.Text = "the provider reported an error"
	}
	e.Text, e.Code = c.shown(e.Text), c.shown(e.Code)
	return e
}

// shown takes the key out before it shortens, so that no part of it stays.
func (c *Caller) shown(text string) string {
	if !c.key.IsZero() {
		text = strings.ReplaceAll(text, c.key.Reveal(), "[redacted]")
	}
	return Shorten(text)
}

// Read reads and closes a whole answer, and charges the request's memory.Hold for
// it as it comes. An answer larger than the hold allows is the vendor's fault; one
// that there is no memory for at the moment is not, and has the cause
// memory.ErrFull.
func Read(ctx context.Context, response *http.Response) ([]byte, error) {
	defer response.Body.Close() //nolint:errcheck // Reading says what matters.
	hold := memory.FromContext(ctx)
	largest := hold.Largest(maxAnswer)
	body, err := memory.ReadAll(hold, response.Body, response.ContentLength, largest)
	switch {
	case errors.Is(err, memory.ErrTooLarge):
		return nil, Malformed(fmt.Sprintf("the answer is larger than %d MiB", largest>>20), nil)
	case err != nil:
		e := Interrupted(ctx, err)
		e.Status = response.StatusCode // The answer had begun: it is not asked for twice.
		return nil, e
	}
	return body, nil
}

// Finish closes a stream that said all it has to say. It first reads what is
// left, which should be the end: a connection is kept only when its answer was
// read to the end. A vendor that holds the end back is not waited for.
func Finish(body io.ReadCloser) error {
	late := time.AfterFunc(restTime, func() { _ = body.Close() })
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, body, maxRest)
	return body.Close()
}

// Unencodable types a request that JSON can't hold.
func Unencodable(cause error) *provider.Error {
	return &provider.Error{Class: apierr.ClassPolicy, Text: "the request can't be put into JSON", Cause: cause}
}

// Interrupted types a failure of the connection, or of the memory for what comes. The error's own text names
// addresses, so it stays in the cause; a cancelled call stays recognisable.
func Interrupted(ctx context.Context, err error) *provider.Error {
	text := "the connection to the provider failed"
	if errors.Is(err, memory.ErrFull) {
		text = memory.ErrFull.Error()
	}
	if cause := context.Cause(ctx); cause != nil {
		text, err = "the call was ended: "+cause.Error(), errors.Join(cause, err)
	}
	return &provider.Error{Class: apierr.ClassTransient, Text: text, Cause: err}
}

// Malformed types an answer that the dialect can't read.
func Malformed(text string, cause error) *provider.Error {
	return &provider.Error{Class: apierr.ClassServerError, Text: text, Cause: cause}
}

// Shorten bounds a vendor's text and takes line breaks and control characters out.
func Shorten(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
