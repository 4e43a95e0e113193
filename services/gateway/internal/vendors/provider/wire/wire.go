// Package wire holds the HTTP and JSON code that the vendor dialects share: one tuned transport, requests with typed failures,
// parsers of Retry-After and of rate limits, the calls of batch jobs, and reading JSON without copies. It never retries and
// never follows a redirect.
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Bounds of a vendor's answer.
const (
	// maxAnswer is the largest answer in bytes if the request sets no limit.
	maxAnswer = 48 << 20
	maxError  = 64 << 10
	maxText   = 500
	// maxRest bounds the bytes that Finish reads, and restTime its wait.
	maxRest  = 4 << 10
	restTime = 100 * time.Millisecond
)

// Base parses the base URL of a vendor.
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

// Classify sets the class of a vendor's refusal from its status and body. It may set Code, Text and RetryAfter; Status
// is set already.
type Classify func(e *provider.Error, header http.Header, body []byte)

// Post sends body as JSON and returns the vendor's 2xx response; a body of type json.RawMessage is sent byte for byte.
// The caller closes the response's body. Every error is a *provider.Error.
func (c *Caller) Post(ctx context.Context, at *url.URL, header http.Header, body any) (*http.Response, error) {
	text, err := encode(body)
	if err != nil {
		return nil, Unencodable(err)
	}
	header.Set("Content-Type", "application/json")
	return c.roundTrip(ctx, http.MethodPost, at, header, &outgoing{bytes.NewReader(text), provider.ReceiptOf(ctx)}, int64(len(text)))
}

func (c *Caller) roundTrip(ctx context.Context, method string, at *url.URL, header http.Header, body io.ReadCloser, size int64) (*http.Response, error) {
	request := (&http.Request{
		Method: method, URL: at, Host: at.Host, Header: header, Body: body, ContentLength: size,
	}).WithContext(ctx)
	if err := c.authorize(request); err != nil {
		return nil, err
	}
	response, err := c.Transport.RoundTrip(request)
	if err != nil {
		return nil, Interrupted(ctx, err)
	}
	// The vendor's id of the call is recorded here for every dialect, so that an answer that can't be parsed has one too.
	if receipt := provider.ReceiptOf(ctx); receipt != nil {
		receipt.SetID(c.requestID(response.Header))
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

// refusalOf reads as much of an error's body as is needed to classify it, or nothing if there is no memory for it.
func refusalOf(ctx context.Context, body io.Reader) []byte {
	hold := memory.FromContext(ctx)
	if hold.Charge(maxError) != nil {
		return nil
	}
	defer hold.Return(maxError)
	text, _ := io.ReadAll(io.LimitReader(body, maxError))
	return text
}

// outgoing is a request's body. A connection reads it while it writes, so that a request is sent once its body was read
// to the end.
type outgoing struct {
	*bytes.Reader

	receipt *provider.Receipt
}

func (o *outgoing) Read(p []byte) (int, error) {
	n, err := o.Reader.Read(p)
	if o.Len() == 0 {
		o.receipt.SetSent()
	}
	return n, err
}

// WriteTo replaces the embedded method, which would not record the end.
func (o *outgoing) WriteTo(w io.Writer) (int64, error) {
	n, err := o.Reader.WriteTo(w)
	if o.Len() == 0 {
		o.receipt.SetSent()
	}
	return n, err
}

// Close does nothing: the body is in memory.
func (o *outgoing) Close() error { return nil }

// addTo implements summed.
func (o *outgoing) addTo(h hash.Hash) {
	_, _ = io.Copy(h, io.NewSectionReader(o.Reader, 0, o.Size())) // A hash never fails.
}

func encode(body any) ([]byte, error) {
	if text, ok := body.(json.RawMessage); ok {
		return text, nil
	}
	return json.Marshal(body)
}

// Limits returns what a vendor's answer reports as left of the rate limit.
func (c *Caller) Limits(response *http.Response) provider.Limits {
	return Limits(response.Header, c.Now())
}

// Refused returns the typed error for an error document that came in a 2xx answer or in a stream.
func (c *Caller) Refused(status int, body []byte) *provider.Error {
	return c.refusal(status, http.Header{}, body)
}

func (c *Caller) refusal(status int, header http.Header, body []byte) *provider.Error {
	now := c.Now()
	e := &provider.Error{
		Status: status, RetryAfter: RetryAfter(header, now), ShouldRetry: shouldRetry(header), Limits: Limits(header, now),
	}
	c.Classify(e, header, body)
	e.Unsupported = isUnsupported(e)
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
	e.Text, e.Code = c.Shown(e.Text), c.Shown(e.Code)
	return e
}

// Shown returns a vendor's text as it may be shown: without secrets, and shortened; see Shorten. It removes secrets first,
// so that no part of one stays.
func (c *Caller) Shown(text string) string {
	return Shorten(c.redact(text))
}

// Read reads and closes a whole answer, and charges the request's memory.Hold for it as it is received. An answer
// larger than the hold allows is the vendor's failure. If there is no memory for it at the moment, the error's cause is
// memory.ErrFull.
func Read(ctx context.Context, response *http.Response) ([]byte, error) {
	defer response.Body.Close() //nolint:errcheck // Reading returns the error that matters.
	hold := memory.FromContext(ctx)
	largest := hold.Largest(maxAnswer)
	body, err := memory.ReadAll(hold, response.Body, response.ContentLength, largest)
	switch {
	case errors.Is(err, memory.ErrTooLarge):
		return nil, Malformed(fmt.Sprintf("the answer is larger than %d MiB", largest>>20), nil)
	case err != nil:
		e := Interrupted(ctx, err)
		e.Status = response.StatusCode // The answer had begun: the request is not sent again.
		return nil, e
	}
	return body, nil
}

// Finish closes a stream that has delivered everything. It first reads the rest, which should be the end: a connection
// is kept only if its answer was read to the end. It does not wait for a vendor that holds the end back.
func Finish(body io.ReadCloser) error {
	late := time.AfterFunc(restTime, func() { _ = body.Close() })
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, body, maxRest)
	return body.Close()
}

// Unencodable returns the error of a request that JSON can't represent.
func Unencodable(cause error) *provider.Error {
	return &provider.Error{Class: apierr.ClassPolicy, Text: "the request can't be encoded as JSON", Cause: cause}
}

// Interrupted returns the error for a failed connection, or for missing memory. The error's own text contains
// addresses, so it is only in the cause; a canceled call stays recognizable by its cause.
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

// Malformed returns the error of an answer that the dialect can't read.
func Malformed(text string, cause error) *provider.Error {
	return &provider.Error{Class: apierr.ClassServerError, Text: text, Cause: cause}
}

// Shorten bounds the length of a vendor's text and replaces line breaks and control characters by spaces.
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
