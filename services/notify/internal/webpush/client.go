package webpush

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/netguard"
)

// Urgency is whether a device should wake up for a message (RFC 8030, section 5.3).
type Urgency string

// UrgencyNormal is the urgency of a message without one. It is always sent: some versions of Safari refuse pushes
// without an urgency.
const UrgencyNormal Urgency = "normal"

// Message is a message in plain text.
type Message struct {
	Text []byte
	// TTL is how long the push service keeps it for a device that is offline, in seconds.
	TTL     int
	Urgency Urgency
	// Topic makes it replace a waiting message with the same topic; empty for none.
	Topic string
}

// maxAnswer bounds how much of a response is read, in bytes.
const maxAnswer = 4 << 10

// Client sends pushes. It is safe for concurrent use.
type Client struct {
	http   *http.Client
	signer *Signer
}

// NewClient returns a Client over http, which must follow no redirect and dial guarded. signer identifies the sender.
func NewClient(http *http.Client, signer *Signer) *Client { return &Client{http, signer} }

// Push encrypts a message for a device, sends it, and interprets the response. An error means that nothing was sent;
// an unreachable push service is an Answer.
func (c *Client) Push(ctx context.Context, key Key, from *Sender, to Subscription, m Message) (Answer, error) {
	request, err := c.Prepare(ctx, key, from, to, m)
	if err != nil {
		return Answer{}, err
	}
	var sent atomic.Bool // written by the connection's own goroutine
	trace := &httptrace.ClientTrace{
		GetConn:      func(string) { sent.Store(false) }, // net/http retries only a request that no server has received
		WroteHeaders: func() { sent.Store(true) },
	}
	response, err := c.http.Do(request.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil {
		return unanswered(ctx, err, sent.Load()), nil
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := netguard.ReadStart(response, maxAnswer) // The part that arrived is enough.
	a := Read(response.StatusCode, response.Header, body, c.signer.now())
	if a.Verdict == Unauthorized {
		c.signer.Forget(key, to.endpoint.origin)
	}
	return a, nil
}

// Prepare returns the request of a push, ready to be sent.
func (c *Client) Prepare(ctx context.Context, key Key, from *Sender, to Subscription, m Message) (*http.Request, error) {
	body, err := from.Encrypt(to, m.Text)
	if err != nil {
		return nil, err
	}
	authorization, err := c.signer.Authorization(key, to.endpoint.origin)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.endpoint.url, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("webpush: make request") // the cause quotes the endpoint
	}
	h := request.Header
	h["Authorization"] = []string{authorization}
	h["Content-Encoding"] = []string{"aes128gcm"}
	h["Content-Type"] = []string{"application/octet-stream"}
	h["Ttl"] = []string{strconv.Itoa(m.TTL)}
	h["Urgency"] = []string{string(m.Urgency)}
	h["User-Agent"] = []string{"switchyard-notify"}
	if m.Topic != "" {
		h["Topic"] = []string{m.Topic}
	}
	if to.endpoint.windows() {
		// WNS refuses a TTL that its own cache policy contradicts, and caches by default.
		h["X-Wns-Cache-Policy"] = []string{"cache"}
		if m.TTL == 0 {
			h["X-Wns-Cache-Policy"] = []string{"no-cache"}
		}
	}
	return request, nil
}

// The reasons of pushes without a response.
const (
	ReasonConnection  = "connection_failed"
	ReasonTimeout     = "timeout"
	ReasonInterrupted = "interrupted"
)

// unanswered converts a transport error. Its text names the endpoint, so only its kind is kept. sent reports whether
// the push service may have the message.
func unanswered(ctx context.Context, err error, sent bool) Answer {
	if refusal, ok := errors.AsType[*netguard.Refusal](err); ok {
		return Answer{Verdict: Refused, Reason: "target_not_allowed: " + refusal.Rule}
	}
	a := Answer{Verdict: Retry, Reason: ReasonConnection}
	if sent {
		a.Verdict = Lost
	}
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case ctx.Err() != nil:
		a.Reason = ReasonInterrupted
	case ok && timeout.Timeout():
		a.Reason = ReasonTimeout
	}
	return a
}

// Timeouts of a push.
const (
	pushTimeout    = 20 * time.Second
	connectTimeout = 5 * time.Second
)

// NewHTTP returns the HTTP client for pushes: guarded, with pooled connections, shared where the push service
// supports HTTP/2. perHost bounds the idle connections per host.
func NewHTTP(guard *netguard.Guard, perHost int, options netguard.TransportOptions) *http.Client {
	options.ConnectTimeout, options.MaxIdlePerHost = connectTimeout, perHost
	return guard.Client(pushTimeout, options)
}
