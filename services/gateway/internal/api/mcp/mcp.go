// Package mcp serves the Model Context Protocol to callers, over streamable HTTP: the revision without sessions and, on
// the same paths, the older ones that begin with a handshake. It reads
// the protocol strictly, answers the methods itself, and leaves every decision about a tool to package toolcall. Package
// api mounts it.
//
// It doesn't build on the protocol's SDK: there each request is a session with goroutines of its own, whose panics end
// the process, and answers are either all streams or none. The tests speak to it by the SDK's client.
package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/telemetry"
)

// Tools lists and calls tools; see toolcall.Caller.
type Tools interface {
	// Knows reports whether an organization may call a server of this id.
	Knows(organization, server string) bool
	List(ctx context.Context, a *toolcall.Asker, server string) (toolcall.List, error)
	Call(ctx context.Context, r *toolcall.Request) (toolcall.Answer, error)
	Definition(ctx context.Context, a *toolcall.Asker, name toolcall.Name) (json.RawMessage, bool)
	// Features reports what the servers of an organization offer: one, or all where server is empty.
	Features(organization, server string) map[toolserver.Feature]bool
	Offers(ctx context.Context, a *toolcall.Asker, server string, of upstream.Offer) (toolcall.Offers, error)
	Query(ctx context.Context, q *toolcall.Query) (toolcall.Answer, error)
	// Follows returns the servers of resources whose changes a caller wants to be notified of.
	Follows(ctx context.Context, a *toolcall.Asker, server string, uris []string) ([]toolcall.Followed, error)
	Task(ctx context.Context, r *toolcall.TaskRequest) (toolcall.Answer, error)
	// FollowTasks returns the servers of tasks of which a caller wants to be notified.
	FollowTasks(
		ctx context.Context, a *toolcall.Asker, client toolcall.Client, server string, ids []string, meta json.RawMessage,
	) ([]toolcall.FollowedTasks, error)
}

// Events is a response of server-sent events.
type Events interface {
	// Send writes events at once. Comments keep the connection alive between them.
	Send(text []byte)
	// Close must be called before the handler returns.
	Close()
}

// Options of a Handler. All are required but Sessions, Answers and Subscriptions; Origins and Hosts may be empty.
type Options struct {
	Tools Tools
	// Asker returns who makes a request, or an *apierr.Error.
	Asker func(ctx context.Context) (toolcall.Asker, error)
	// Sessions are those of the older revisions; nil gives none.
	Sessions Sessions
	// Answers bring what callers answer that are asked something; with nil none is asked.
	Answers Answers
	// Subscriptions are those of sessions to resources; with nil there are none.
	Subscriptions Subscriptions
	// Notices says when lists have changed.
	Notices Notices
	// Events begins a response of server-sent events.
	Events func(w http.ResponseWriter) Events
	// Origins are the origins of pages that may call, such as "https://console.example"; empty for none. Hosts are the
	// names by which callers may address the gateway; empty for any.
	Origins, Hosts []string
	Tracer         trace.Tracer
	Meter          metric.Meter
}

// Handler serves the protocol. Safe for concurrent use.
type Handler struct {
	Options
	metrics *metrics
	// patience is how long an answer is waited for before the response becomes a stream, which comments keep alive.
	patience time.Duration
}

// patience is shorter than what clients and proxies wait for the head of a response.
const patience = 10 * time.Second

// New returns a Handler, or an error of the meter.
func New(o Options) (*Handler, error) {
	m, err := newMetrics(o.Meter)
	if err != nil {
		return nil, err
	}
	return &Handler{Options: o, metrics: m, patience: patience}, nil
}

// Serve answers a request with a body, for a server, or for all servers where server is empty. An error is one of the
// caller's identity; the response has not begun then.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, server string, body []byte) error {
	if refused := h.allows(r); refused != nil {
		return refused
	}
	asker, err := h.Asker(r.Context())
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	in, refused := read(r.Header, body)
	if refused == nil {
		refused = h.open(r.Context(), in, &asker, server)
	}
	if refused == nil && server != "" && !h.Tools.Knows(asker.Organization, server) {
		refused = &refusal{http.StatusNotFound, in.message.ID, errorOf(toolcall.ErrServerNotFound, asker.RequestID, "")}
	}
	if refused != nil {
		rpc.Annotate(r.Context(), slog.String("mcp_error", codeText(refused.err.Code)))
		refused.write(w)
		return nil
	}
	if !in.message.IsRequest() {
		h.take(w, r, in, asker.RequestID)
		return nil
	}
	x := exchange{handler: h, incoming: in, asker: &asker, server: server, started: time.Now()}
	x.reply = newReply(w, h.Events, h.patience)
	defer x.reply.close()
	x.serve(r.Context())
	return nil
}

// Refusals of pages.
var (
	errOrigin = apierr.New(apierr.KindForbidden, apierr.ReasonForbidden, "Origin: this page may not call; GATEWAY_MCP_ORIGINS lists those that may")
	errHost   = apierr.New(apierr.KindForbidden, apierr.ReasonForbidden, "Host: is none of those of GATEWAY_MCP_HOSTS")
)

// allows returns why the page or the address of a request is refused: a name that an attacker resolves to this gateway
// makes a browser call it.
func (h *Handler) allows(r *http.Request) *apierr.Error {
	for _, origin := range r.Header["Origin"] {
		if !slices.Contains(h.Origins, strings.ToLower(origin)) {
			return errOrigin
		}
	}
	if host := strings.ToLower(r.Host); len(h.Hosts) > 0 && !slices.Contains(h.Hosts, host) {
		return errHost
	}
	return nil
}

// serverInfo is what the gateway says of itself.
type serverInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
}

func gateway() serverInfo { return serverInfo{"switchyard-gateway", "Switchyard", telemetry.Version()} }
