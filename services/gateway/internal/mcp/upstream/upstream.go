// Package upstream is the client of tool servers: it lists what they offer and calls their tools, over streamable HTTP
// in the protocol's revisions since 2025-03-26, and over the pipes of local commands. What a server sends is passed on
// as it came, within bounds of size, number, depth and time; nothing of a caller's request reaches a server but what a
// Call holds. Package toolcall calls it.
//
// It speaks the protocol by itself, over package wire: results stay raw, every buffer is bounded, no schema of a server
// is ever evaluated, and a call runs on its caller's goroutine. Its tests hold it against the SDK's servers.
package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/connpool"
	"switchyard.dev/services/platform/fairshare"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/tunnel"
)

// Bounds of what a server sends.
const (
	// maxEvent bounds an event of a stream, a line of a pipe and the body of a refusal, in bytes; maxTotal all that is
	// sent for one request.
	maxEvent = 1 << 20
	maxTotal = 16 << 20
	// maxMessages bounds the messages before a response, maxAsked the requests of a server among them.
	maxMessages = 10_000
	maxAsked    = 16
)

// Times.
const (
	// defaultTimeout bounds a call of a server without a timeout of its own; controlTime bounds any other request.
	defaultTimeout = time.Minute
	controlTime    = 30 * time.Second
	// bodyTime bounds a body that is no stream, from its head to its end.
	bodyTime = 30 * time.Second
	// noticeTime bounds what is sent without waiting for an answer.
	noticeTime = 2 * time.Second
	// idleAfter is how long an unused session is kept, and sweepEach how often they are looked at.
	idleAfter = 15 * time.Minute
	sweepEach = time.Minute
)

const (
	// maxPeers bounds the sessions that are kept, maxOrganizationPeers the sessions of one organization. Beyond the
	// latter, a new session replaces the organization's least recently used one.
	maxPeers, maxOrganizationPeers = 4096, 1024
	// maxSubscribed bounds the sessions that follow resources. One organization may have subscribedShare percent of them,
	// and maxPeerSubscribed at one server.
	maxSubscribed, subscribedShare, maxPeerSubscribed = 256, 25, 32
	// maxNotices bounds the notices that wait; notifiers send that many at a time.
	maxNotices = 256
	notifiers  = 8
)

// Credentials authenticate the gateway at tool servers.
type Credentials interface {
	// Header returns the header of a server's credential; its name is empty for a server that is called without.
	// An error that may be shown is an *oauth.Error.
	Header(ctx context.Context, server *toolserver.Server) (name string, value secret.Value, err error)
	// Refused reports whether another header may be had, in place of one that the server refused.
	Refused(server *toolserver.Server, refused secret.Value) bool
}

// Options configure a Client.
type Options struct {
	// AllowTargets are host:port pairs that the guard permits, and that may use plain http. For development.
	AllowTargets []string
	// DenyPrefixes are networks that are refused in addition to those that are not public.
	DenyPrefixes []netip.Prefix
	// Proxy is asked to connect to the addresses that the guard has checked; nil for none.
	Proxy *tunnel.Proxy
	// DialPrefixes are the networks into which connections are made without a proxy; none means all public ones.
	DialPrefixes []netip.Prefix
	// Resolver looks names up; nil means the machine's resolver.
	Resolver *net.Resolver
	// RootCAs are the certificates that are trusted; nil means the machine's.
	RootCAs *x509.CertPool

	Credentials Credentials
	// Commands returns the local server that the operator allows by a name; nil for none at all.
	Commands func(name string) (Command, bool)
	// Changed is called when a server says that its tools have changed, or refuses a call because they have; nil for none.
	// It must not block.
	Changed func(toolserver.Key)
	// OffersChanged is called when a server says that its resources or prompts have changed; nil for none. It must not block.
	OffersChanged func(toolserver.Key)
	// Version is the gateway's, which servers see.
	Version string
	Tracer  trace.Tracer
	Log     *slog.Logger
}

// Client calls tool servers. Safe for concurrent use.
type Client struct {
	options   Options
	guard     *netguard.Guard
	transport *connpool.Pool
	commands  *commands
	notices   chan notice
	ids       atomic.Int64

	mu    sync.Mutex
	peers *simplelru.LRU[peerKey, *peer]
	// peersOf counts the kept sessions by organization.
	peersOf map[string]int
	// subscribed counts the sessions that follow resources, by their peers.
	subscribed map[peerKey]int
	// following has a place for each of these sessions.
	following *fairshare.Pool
}

// notice is a message, or the end of a session, that nothing waits for.
type notice func(ctx context.Context)

// New returns a Client, or the error of an allowed target.
func New(o Options) (*Client, error) {
	guard, err := netguard.New(netguard.Options{
		AllowTargets: o.AllowTargets, DenyPrefixes: o.DenyPrefixes, Proxy: o.Proxy, DialPrefixes: o.DialPrefixes, Resolver: o.Resolver,
	})
	if err != nil {
		return nil, fmt.Errorf("tool servers: %w", err)
	}
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		options: o, guard: guard, notices: make(chan notice, maxNotices), peersOf: make(map[string]int),
		subscribed: make(map[peerKey]int), following: fairshare.New(maxSubscribed, subscribedShare),
	}
	c.peers, _ = simplelru.NewLRU(maxPeers, c.end) // It fails for a size below 1 only.
	// A pool whose connections serve one request at a time, and no further one once a server has sent more than was
	// asked for: servers for all organizations must not answer one with what is another's.
	c.transport = connpool.New(connpool.Options{
		Dial: guard.DialContext, IdlePerHost: 32, IdleTime: time.Minute,
		TLS: func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs} },
	})
	c.commands = newCommands(o.Commands, o.Log)
	return c, nil
}

// Close closes idle connections. Run has ended.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Transport makes requests on connections that pass the guard, for those who ask other servers in a tool server's name.
// It follows no redirects.
func (c *Client) Transport() http.RoundTripper { return c.transport }

// CheckURL returns an error if a URL is not that of a public address over https, without a lookup. Errors are
// *netguard.Refusal.
func (c *Client) CheckURL(raw string) error {
	_, err := c.guard.CheckSecureURL(raw)
	return err
}

// agent is the User-Agent of all requests.
const agent = "switchyard-gateway"

// fixedHeaders are set by the client itself, so that no credential may replace them.
var fixedHeaders = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Connection": true, "Content-Encoding": true, "Content-Length": true, "Content-Type": true,
	"Cookie": true, "Host": true, "Last-Event-Id": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"User-Agent": true, "Traceparent": true, "Tracestate": true, "Baggage": true,
}

// ReservedHeader reports whether a header's name can't be that of a credential.
func ReservedHeader(name string) bool {
	name = http.CanonicalHeaderKey(name)
	return fixedHeaders[name] || strings.HasPrefix(name, "Mcp-") || strings.HasPrefix(name, "Proxy-")
}
