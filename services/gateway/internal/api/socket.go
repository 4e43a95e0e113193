package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/responses"
	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/bodymemory"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/fairshare"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/socket"
)

// Sockets configures the WebSocket mode of the Responses API. The zero value turns it off.
type Sockets struct {
	// Connections is how many this replica has at most, Memory how many bytes they hold of responses that may be continued.
	Connections, Memory int64
	// Share is the percentage of both that one organization may use.
	Share int
	// Message is the largest message in bytes. Bodies is the memory of all messages, and of other requests.
	Message int
	Bodies  *bodymemory.Budget
	// Drain ends the connections when the service stops.
	Drain *socket.Drain
	// Admission ends the connections of suspended organizations.
	Admission Admission
}

// Admission admits connections; see admission.Controller.
type Admission interface {
	Admit(ctx context.Context, organization, run string, key keyterm.Terms) (admission.Grant, error)
}

// The times of a connection. socketLife is that of the vendor, which clients expect.
const (
	socketLife  = time.Hour
	socketIdle  = 15 * time.Minute
	socketPing  = 30 * time.Second
	messageTime = 30 * time.Second
)

// socketServer serves the Responses API over WebSockets: each message that requests a response is a call of its own.
type socketServer struct {
	Sockets

	responses *responseServer
	server    *rpc.Server
	// places counts connections, memory the bytes of what they recall.
	places, memory *fairshare.Pool
}

// mountSockets registers the WebSocket mode on the server.
func mountSockets(server *rpc.Server, s *responseServer, o Sockets) {
	sockets := &socketServer{
		Sockets: o, responses: s, server: server,
		places: fairshare.New(o.Connections, o.Share), memory: fairshare.New(o.Memory, o.Share),
	}
	server.Handle(http.MethodGet, "/v1/responses", gatewayv1.InferenceService_ChatStream_FullMethodName, sockets.connect)
}

// connect serves a connection until it ends.
func (s *socketServer) connect(w http.ResponseWriter, r *http.Request) error {
	if s.Connections == 0 || !socket.Requested(r) {
		w.Header().Set("Upgrade", "websocket") // RFC 9110, section 15.5.22
		return apierr.New(apierr.KindUpgradeRequired, apierr.ReasonUpgradeRequired, s.withoutSocket())
	}
	if s.Drain.Begun() {
		return apierr.Unavailable("the service is stopping; connect again", nil)
	}
	organization := caller.From(r.Context()).Organization // Empty where each message names its own.
	grant, err := s.Admission.Admit(r.Context(), organization, "", keyterm.Terms{})
	if err != nil {
		return err
	}
	defer grant.End(true)
	if !s.places.Acquire(organization, 1) {
		return tooMany("too many WebSocket connections")
	}
	defer s.places.Release(organization, 1)
	return s.serve(grant.Context(), organization, w, r)
}

func (s *socketServer) withoutSocket() string {
	if s.Connections == 0 {
		return "WebSockets are off; use POST /v1/responses"
	}
	return "GET /v1/responses needs a WebSocket upgrade; use POST without one"
}

func (s *socketServer) serve(ctx context.Context, organization string, w http.ResponseWriter, r *http.Request) error {
	conn, err := socket.Accept(w, r, socket.Bounds{
		Message: int64(s.Message), MessageTime: messageTime, WriteTime: writeTime, Ping: socketPing,
		Idle: socketIdle, Life: socketLife, Drain: s.Drain, Last: lastFrame,
	})
	if err != nil { // The response has been written.
		rpc.Annotate(ctx, slog.String("websocket_error", err.Error()))
		return nil
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c := &connection{
		socketServer: s, conn: conn, organization: organization, end: end, upgrade: r, lanes: newLanes(2 * s.Message),
		recall: &recall{pool: s.memory, organization: organization, lanes: make(map[string]recalled)},
	}
	defer c.recall.close()
	defer c.lanes.close()
	ending := conn.Serve(ctx, c.receive)
	rpc.Annotate(ctx, slog.Int("websocket_code", int(ending.Code)), slog.String("websocket_reason", ending.Reason), slog.Int("messages", c.messages), slog.Int64("messages_refused", c.refused.Load()))
	return conn.Panic()
}

// lastFrame says why a connection that is too old ends; clients connect again.
func lastFrame(end *socket.ClosedError) []byte {
	if end != socket.ErrAged {
		return nil
	}
	return responses.ErrorFrame(leaving(end), "", "")
}

// leaving returns the refusal of a request on a connection that ends soon.
func leaving(why error) *apierr.Error {
	if errors.Is(why, socket.ErrAged) {
		return apierr.New(apierr.KindInvalid, "websocket_connection_limit_reached", "a WebSocket connection lasts 60 minutes; connect again")
	}
	return apierr.Unavailable("the connection is closing; connect again", why)
}

// connection is a WebSocket of a client.
type connection struct {
	*socketServer

	conn *socket.Conn
	// organization is that of the connection; empty where each message names its own.
	organization string
	// end ends the connection. An *apierr.Error as the cause gives its close code.
	end     context.CancelCauseFunc
	upgrade *http.Request
	lanes   *lanes
	recall  *recall
	// messages and refused count the client's messages and those that no call was made for.
	messages int
	refused  atomic.Int64
}

// receive handles one message.
func (c *connection) receive(message io.Reader) error {
	memory := c.Bodies.Open(c.organization)
	defer memory.Close()
	text, err := memory.ReadAll(message, -1)
	refused, full := errors.AsType[*apierr.Error](err)
	if err != nil && !full {
		return err
	}
	c.messages++
	if full {
		return c.refuse("", refused)
	}
	f, err := responses.ReadFrame(text)
	switch {
	case errors.Is(err, responses.ErrNotJSON):
		return socket.ErrNotJSON
	case err != nil:
		return c.refuse(f.Stream, err)
	}
	switch f.Type {
	case responses.FrameCreate:
		return c.create(f, &memory)
	case responses.FrameCancel:
		c.lanes.cancel(f)
	case responses.FrameSteer:
		return c.conn.Send(responses.SteerFailed(f))
	case responses.FrameProcessed:
	}
	return nil
}

// refuse sends the error of a message for which no call is made.
func (c *connection) refuse(stream string, err error) error {
	c.refused.Add(1)
	return c.conn.Send(responses.ErrorFrame(apierr.From(err), stream, rpc.RequestID("")))
}

// create adds a request to its lane.
func (c *connection) create(f responses.Frame, memory *bodymemory.Hold) error {
	if err := c.conn.Begin(); err != nil {
		return c.refuse(f.Stream, leaving(err))
	}
	first, err := c.lanes.add(f, memory)
	if err != nil {
		c.conn.End()
		return c.refuse(f.Stream, err)
	}
	if first {
		c.conn.Go(func(ctx context.Context) { c.run(ctx, f.Stream) })
	}
	return nil
}

// run serves the requests of a lane until none is left, or the connection has ended.
func (c *connection) run(ctx context.Context, lane string) {
	for more := true; more && ctx.Err() == nil; more = c.lanes.next(lane) {
		c.call(ctx, c.lanes.first(lane))
		c.conn.End()
	}
}

// call serves a request as a call of its own.
func (c *connection) call(ctx context.Context, f responses.Frame) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.lanes.serve(f.Stream, cancel)
	r := c.request(ctx)
	out := &frameWriter{header: make(http.Header), conn: c.conn, stream: f.Stream}
	const method = gatewayv1.InferenceService_Chat_FullMethodName
	err := c.server.Call(out, r, method, f.Body, func(w http.ResponseWriter, r *http.Request) error { return c.respond(w, r, f) })
	if err == nil {
		return
	}
	e := apierr.From(err)
	_ = c.conn.Send(responses.ErrorFrame(e, f.Stream, r.Header.Get(caller.HeaderRequest))) // The connection ends where it can't be sent.
	if e.Kind == apierr.KindUnauthenticated {
		c.end(e)
	}
}

// perConnection are the headers of the upgrade that are not those of each request.
var perConnection = []string{"Connection", "Upgrade", headerEarly, caller.HeaderIdempotency}

// request returns the HTTP request that a message stands for, with an id of its own.
func (c *connection) request(ctx context.Context) *http.Request {
	header := c.upgrade.Header.Clone()
	for _, name := range perConnection {
		header.Del(name)
	}
	header.Set(caller.HeaderRequest, rpc.RequestID(""))
	r := &http.Request{Method: http.MethodPost, URL: c.upgrade.URL, Header: header}
	return r.WithContext(ctx)
}

// respond answers a request as POST /v1/responses does.
func (c *connection) respond(w http.ResponseWriter, r *http.Request, f responses.Frame) error {
	ctx := r.Context()
	rpc.Annotate(ctx, slog.String("connection", c.upgrade.Header.Get(caller.HeaderRequest)))
	body := rpc.Body(r)
	scope, err := scopeOf(ctx, gjson.GetBytes(body, dialect.Extension+".organization_id").Str)
	if err != nil {
		return err
	}
	if body, err = c.responses.inferences.withFiles(ctx, scope, body); err != nil {
		return err
	}
	history := &recallHistory{held: c.recall, scope: scope, stored: c.responses.history(ctx, scope)}
	chat, exchange, err := responses.Read(body, r.Header, history)
	if err != nil {
		return err
	}
	if exchange.Background() {
		return apierr.Invalid("background", "is not possible over a WebSocket; use POST /v1/responses")
	}
	c.lanes.answer(f.Stream, exchange.ID)
	exchange.SetKeep(c.responses.keep(ctx, scope, exchange, history.unstored()))
	kept := false
	exchange.SetRemember(func(response json.RawMessage) {
		kept = true
		c.recall.keep(f.Stream, history.newest(exchange, response))
	})
	err = c.answer(w, r, f, chat, exchange)
	if !kept { // The turn failed. Its client sends the whole conversation again.
		c.recall.forget(history.found.id)
	}
	return err
}

func (c *connection) answer(w http.ResponseWriter, r *http.Request, f responses.Frame, chat *dialect.Chat, exchange *responses.Exchange) error {
	form := responses.Dialect{}.Name()
	if f.WarmUp {
		rpc.Annotate(r.Context(), slog.Bool("warm_up", true))
		if _, err := toNativeRequest(r.Context(), chat, r.Header, nil); err != nil {
			return err
		}
		events, err := exchange.WarmUp(chat.Model)
		if err != nil {
			return err
		}
		return c.emit(f, events)
	}
	err := c.responses.inferences.serveNative(w, r, form, chat, exchange.Body)
	if err != nil && errors.Is(context.Cause(r.Context()), errCancelled) { // Before the first event.
		return c.emit(f, exchange.Stream(dialect.Reply{Model: chat.Model}).Fail(errCancelled, r.Header.Get(caller.HeaderRequest)))
	}
	return err
}

// emit sends the events of a response.
func (c *connection) emit(f responses.Frame, events []byte) error {
	return responses.EachFrame(events, f.Stream, c.conn.Send)
}

// frameWriter is the http.ResponseWriter of a request that arrived as a message: it sends each event as one.
type frameWriter struct {
	header http.Header
	conn   *socket.Conn
	stream string
}

// Header implements http.ResponseWriter. The headers are not sent.
func (w *frameWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *frameWriter) WriteHeader(int) {}

// Write sends the events of a text, which holds whole ones only.
func (w *frameWriter) Write(events []byte) (int, error) {
	if err := responses.EachFrame(events, w.stream, w.conn.Send); err != nil {
		return 0, err
	}
	return len(events), nil
}

// FlushError implements the interface of http.ResponseController.
func (w *frameWriter) FlushError() error { return nil }
