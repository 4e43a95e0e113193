package api

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/mcp"
	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/tag"
	"switchyard.dev/services/platform/telemetry"
)

// toolRoot is the path of all tool servers; that of one of them follows it.
const toolRoot = "/mcp"

// ToolFace is the face by which callers call tools; without a Caller there is none.
type ToolFace struct {
	Caller mcp.Tools
	// Sessions are those of the protocol's older revisions; nil gives none.
	Sessions mcp.Sessions
	// Answers bring what callers answer that are asked something; nil asks none.
	Answers mcp.Answers
	// Subscriptions are those of sessions to resources; nil has none.
	Subscriptions mcp.Subscriptions
	// Notices says when lists have changed.
	Notices mcp.Notices
	// Origins are the origins of pages that may call, Hosts the names by which callers may address the gateway; see
	// mcp.Options.
	Origins, Hosts []string
	Tracer         trace.Tracer
	Meter          metric.Meter
}

// isTool reports whether a path is one of the Model Context Protocol.
func isTool(path string) bool { return path == toolRoot || strings.HasPrefix(path, toolRoot+"/") }

// mountTools registers the paths of the Model Context Protocol.
func mountTools(server *rpc.Server, o ToolFace) error {
	if o.Caller == nil {
		return nil
	}
	face, err := mcp.New(mcp.Options{
		Tools: o.Caller, Sessions: o.Sessions, Answers: o.Answers, Subscriptions: o.Subscriptions, Notices: o.Notices, Asker: asker, Events: newToolEvents, Origins: o.Origins, Hosts: o.Hosts, Tracer: o.Tracer, Meter: o.Meter,
	})
	if err != nil {
		return err
	}
	serve := func(w http.ResponseWriter, r *http.Request) error {
		return face.Serve(w, r, r.PathValue("server"), rpc.Body(r))
	}
	server.Handle("POST", toolRoot, gatewayv1.InferenceService_Chat_FullMethodName, serve)
	server.Handle("POST", toolRoot+"/{server}", gatewayv1.InferenceService_Chat_FullMethodName, serve)
	listen := func(w http.ResponseWriter, r *http.Request) error { return face.Listen(w, r, r.PathValue("server")) }
	server.Handle("GET", toolRoot, gatewayv1.InferenceService_Chat_FullMethodName, listen)
	server.Handle("GET", toolRoot+"/{server}", gatewayv1.InferenceService_Chat_FullMethodName, listen)
	end := func(w http.ResponseWriter, r *http.Request) error { return face.End(w, r, r.PathValue("server")) }
	server.Handle("DELETE", toolRoot, gatewayv1.InferenceService_Chat_FullMethodName, end)
	server.Handle("DELETE", toolRoot+"/{server}", gatewayv1.InferenceService_Chat_FullMethodName, end)
	return nil
}

// asker returns who lists or calls tools. All of it is in headers.
func asker(ctx context.Context) (a toolcall.Asker, err error) {
	c := caller.From(ctx)
	a = toolcall.Asker{RequestID: telemetry.RequestID(ctx), Key: c.Key, Service: c.Name, Run: c.Run, User: c.User}
	if a.Organization, err = c.OrganizationOf(""); err != nil {
		return a, err
	}
	if a.KeyTerms, err = keyterm.Parse(c.KeyTerms); err != nil {
		return a, err
	}
	a.Tags, err = tag.Of(c.Tags, nil)
	return a, err
}

// toolEvents is an eventWriter whose events are encoded already.
type toolEvents struct{ writer *eventWriter }

func newToolEvents(w http.ResponseWriter) mcp.Events { return toolEvents{newEventWriter(w, pingEvery)} }

// Send implements mcp.Events.
func (e toolEvents) Send(text []byte) {
	e.writer.send(text)
	e.writer.flush()
}

// Close implements mcp.Events.
func (e toolEvents) Close() { e.writer.close() }
