package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/mcp/oauth"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
	"switchyard.dev/services/platform/retryafter"
)

// Media types.
const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
)

// maxRetryAfter caps a server's hint.
const maxRetryAfter = 5 * time.Minute

// httpLink reaches a server over streamable HTTP.
type httpLink struct {
	transport http.RoundTripper
	url       *url.URL
	// credential is replaced where it is an access token.
	credential atomic.Pointer[header]
}

// sentBody is a request's body that records whether any of it was sent. The head goes first: without a byte of the body
// the server has no whole request.
type sentBody struct {
	bytes.Reader
	sent atomic.Bool
}

// Read reads the body.
func (b *sentBody) Read(p []byte) (int, error) {
	b.sent.Store(true)
	return b.Reader.Read(p)
}

// Close does nothing.
func (*sentBody) Close() error { return nil }

// header returns the headers of a request: nothing but what is named here.
func (l *httpLink) header(s *session, accept string) http.Header {
	h := http.Header{"User-Agent": {agent}, "Accept": {accept}}
	if c := l.credential.Load(); c.name != "" {
		h[c.name] = []string{c.value.Reveal()}
	}
	if s.version != "" {
		h.Set(wire.HeaderVersion, s.version)
	}
	if s.id != "" {
		h.Set(wire.HeaderSession, s.id)
	}
	return h
}

// post sends a message. sent reports whether the server may have it.
func (l *httpLink) post(ctx context.Context, s *session, r *request, message []byte) (answer *http.Response, sent bool, err error) {
	h := l.header(s, typeJSON+", "+typeEvents)
	h.Set("Content-Type", typeJSON)
	if r.span != "" {
		h.Set("Traceparent", r.span)
	}
	if s.modern {
		h.Set(wire.HeaderMethod, r.method)
		if r.name != "" {
			h.Set(wire.HeaderName, wire.EncodeHeader(r.name))
		}
		for _, a := range r.arguments {
			h[http.CanonicalHeaderKey(a.header)] = []string{a.value}
		}
	}
	body := &sentBody{Reader: *bytes.NewReader(message)}
	answer, err = l.do(ctx, http.MethodPost, h, body, int64(len(message)))
	return answer, body.sent.Load(), err
}

func (l *httpLink) do(ctx context.Context, method string, h http.Header, body io.ReadCloser, size int64) (*http.Response, error) {
	request := (&http.Request{
		Method: method, URL: l.url, Host: l.url.Host, Header: h, Body: body, ContentLength: size,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	answer, err := l.transport.RoundTrip(request)
	if err == nil && answer.Header.Get("Content-Encoding") != "" && !strings.EqualFold(answer.Header.Get("Content-Encoding"), "identity") {
		_ = answer.Body.Close()
		return nil, &Error{Cause: CauseProtocol, Text: "the server compressed its answer, which was not asked for", Sent: true, Status: answer.StatusCode}
	}
	return answer, err
}

// send implements link.
func (l *httpLink) send(ctx context.Context, s *session, r *request, talk *conversation) (response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	talk.reply = func(ctx context.Context, m *wire.Message) error {
		return l.deliver(ctx, s, &request{}, m.Append(nil))
	}
	answer, sent, err := l.post(ctx, s, r, r.body())
	if err != nil {
		return response{}, failed(ctx, err, sent)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return l.refusal(ctx, cancel, s, r, answer)
	}
	var text []byte
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	switch kind {
	case typeJSON:
		text, err = readBody(ctx, cancel, answer, maxTotal)
		if err == nil {
			return l.whole(ctx, r, talk, text, answer)
		}
	case typeEvents:
		return l.events(ctx, s, r, talk, answer)
	default:
		err = protocol("the server's answer is neither JSON nor a stream of events")
	}
	return response{}, failed(ctx, err, true)
}

// whole reads a response that came as one document.
func (l *httpLink) whole(ctx context.Context, r *request, talk *conversation, text []byte, answer *http.Response) (response, error) {
	m, err := wire.Parse(text)
	if err != nil {
		return response{}, unreadable(err)
	}
	if !m.IsResponse() {
		return response{}, protocol("the server's answer is no response")
	}
	if _, err := talk.receive(ctx, &m); err != nil {
		return response{}, failed(ctx, err, true)
	}
	opened := response{result: m.Result, err: m.Error, status: answer.StatusCode}
	if r.method == wire.MethodInitialize {
		opened.session = answer.Header.Get(wire.HeaderSession)
	}
	return opened, nil
}

// unreadable returns the error for an answer that is not a JSON-RPC message. err says which rule it breaks.
func unreadable(err error) *Error {
	e := protocol("the server sent an invalid message: " + err.Error())
	e.Err = err
	return e
}

// readBody reads a whole body within bodyTime, and charges the caller's memory for it.
func readBody(ctx context.Context, cancel context.CancelCauseFunc, answer *http.Response, largest int64) ([]byte, error) {
	late := time.AfterFunc(bodyTime, func() { cancel(errSlowBody) })
	defer late.Stop()
	if answer.ContentLength > largest {
		return nil, memory.ErrTooLarge
	}
	return memory.ReadAll(memory.FromContext(ctx), answer.Body, answer.ContentLength, largest)
}

// unexecuted are the statuses by which a server says that it did nothing.
var unexecuted = map[int]bool{
	http.StatusBadRequest: true, http.StatusUnauthorized: true, http.StatusPaymentRequired: true, http.StatusForbidden: true,
	http.StatusNotFound: true, http.StatusMethodNotAllowed: true, http.StatusNotAcceptable: true, http.StatusProxyAuthRequired: true,
	http.StatusLengthRequired: true, http.StatusRequestEntityTooLarge: true, http.StatusRequestURITooLong: true,
	http.StatusUnsupportedMediaType: true, http.StatusMisdirectedRequest: true, http.StatusUnprocessableEntity: true,
	http.StatusTooManyRequests: true, http.StatusRequestHeaderFieldsTooLarge: true,
}

// refusal reads an answer with another status than 200. What it says of other addresses (Location, WWW-Authenticate) is
// never followed.
func (l *httpLink) refusal(ctx context.Context, cancel context.CancelCauseFunc, s *session, r *request, answer *http.Response) (response, error) {
	if answer.StatusCode == http.StatusNotFound && s.id != "" {
		return response{}, errEnded
	}
	status := answer.StatusCode
	e := &Error{Cause: CauseRefused, Text: "the server answered with status " + http.StatusText(status), Sent: !unexecuted[status], Status: status}
	e.RetryAfter = retryafter.Parse(answer.Header.Get("Retry-After"), time.Now(), maxRetryAfter)
	switch {
	case status < http.StatusMultipleChoices:
		return response{}, &Error{Cause: CauseProtocol, Text: "the server took the request without an answer", Sent: true, Status: status}
	case status < http.StatusBadRequest:
		e.Text = "the server redirects, which is not followed"
		return response{}, e
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Text = refusedText(answer.Header)
		return response{}, e
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if kind != typeJSON {
		return response{}, e
	}
	text, err := readBody(ctx, cancel, answer, maxEvent)
	if err != nil && ctx.Err() != nil {
		return response{}, failed(ctx, err, true)
	}
	if m, err := wire.Parse(text); err == nil && m.Error != nil && (m.ID == nil || string(m.ID) == string(r.number())) {
		return response{err: m.Error, status: status}, nil
	}
	return response{}, e
}

// refusedText says why a server refused a credential. The scopes that it demands are its own text, within the bounds of
// oauth.Challenge.
func refusedText(h http.Header) string {
	text := "the server refused the gateway's credential"
	c := oauth.ParseChallenge(h)
	switch {
	case c.Code == oauth.InsufficientScope && c.Scope != "":
		return text + ": it demands the scope " + strconv.Quote(c.Scope)
	case c.Code == oauth.InsufficientScope:
		return text + ": it demands another scope"
	}
	return text
}

// deliver sends a message that has no response.
func (l *httpLink) deliver(ctx context.Context, s *session, r *request, message []byte) error {
	answer, sent, err := l.post(ctx, s, r, message)
	if err != nil {
		return failed(ctx, err, sent)
	}
	defer func() { _ = answer.Body.Close() }()
	// The end of the body lets the connection serve another request.
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxEvent))
	if answer.StatusCode >= http.StatusMultipleChoices {
		return &Error{Cause: CauseRefused, Text: "the server refused a notice with status " + http.StatusText(answer.StatusCode), Status: answer.StatusCode}
	}
	return nil
}

// notify implements link.
func (l *httpLink) notify(ctx context.Context, s *session, n *request) error {
	return l.deliver(ctx, s, n, n.body())
}

// end implements link.
func (l *httpLink) end(ctx context.Context, s *session) {
	if s.modern || s.id == "" {
		return
	}
	if answer, err := l.do(ctx, http.MethodDelete, l.header(s, typeJSON), http.NoBody, 0); err == nil {
		_ = answer.Body.Close()
	}
}

// cancelsByNotice implements link: only in a modern server the end of the connection is a cancellation.
func (l *httpLink) cancelsByNotice(s *session) bool { return !s.modern }

// close implements link.
func (l *httpLink) close() {}

// isEnd reports whether an error means that a stream ended, by its end or by that of its connection.
func isEnd(err error) bool {
	return !errors.Is(err, sse.ErrTooLarge) && !errors.Is(err, sse.ErrEndless) && !errors.Is(err, memory.ErrFull)
}
