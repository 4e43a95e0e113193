// Package rpc serves a service's contract on two faces: gRPC, and JSON over HTTP through grpc-gateway. Both reach one
// set of gRPC handlers, and every call of either face passes through the same chain of steps. A service's app package
// creates and starts the Server; its api package only implements the generated server interfaces.
package rpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/bodymemory"
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/caller"
)

// Options of a Server. A field is required unless its comment says that it is optional.
type Options struct {
	Log    *slog.Logger
	Tracer trace.Tracer
	Meter  metric.Meter
	// Tokens are the accepted service tokens. Nil switches authentication off, which services allow on a loopback
	// address only.
	Tokens *caller.Tokens
	// Role is the contract's method option that names the role a method requires. RawJSON is its field option that
	// marks bytes fields holding JSON text.
	Role, RawJSON protoreflect.ExtensionType
	// NullJSON is optional. It is the field option that marks optional fields which the JSON face writes as null when
	// they are absent.
	NullJSON protoreflect.ExtensionType
	// ErrorBody returns the service's JSON error document.
	ErrorBody func(e *apierr.Error, requestID string) any
	// Dialect is optional. It returns the dialect of an HTTP request; the zero Dialect means the service's own format.
	Dialect func(r *http.Request) Dialect
	// RefuseBody and RefuseMessage are optional. RefuseBody checks a JSON body before it is decoded. RefuseMessage
	// checks a message received on either face before the contract's rules are applied. A non-nil error ends the call
	// and is returned to the caller.
	RefuseBody    func(method string, body []byte) error
	RefuseMessage func(m any) error
	// MaxBody is the largest request in bytes, on both faces. Bodies is optional: the memory of all requests together.
	MaxBody int
	Bodies  *bodymemory.Budget
	// Counts is optional. It records the calls that the edge has counted; without it the service counts none.
	Counts callcount.Recorder
	// UnaryTimeout bounds a unary call. Streams and handlers mounted with Handle set their own timeouts.
	UnaryTimeout time.Duration
	// TLS is optional. With client CAs set, callers must present a client certificate, except for handlers mounted with
	// HandleOpen.
	TLS *tls.Config
}

// Dialect is the HTTP format of another API, for callers that use its SDK.
type Dialect struct {
	// Name of the other API; empty for the service's own format. A request in a dialect may have query parameters that
	// its method doesn't define.
	Name string
	// ErrorBody renders errors as clients of that API expect them; nil means Options.ErrorBody.
	ErrorBody func(e *apierr.Error, requestID string) any
	// KeyHeader is a header that may carry the token instead of Authorization; empty for none.
	KeyHeader string
	// KeyQuery is a query parameter that may carry the token, too; empty for none. It is removed from the URL before any
	// other code reads it.
	KeyQuery string
	// IDHeader is a second response header that carries the request id; empty for none.
	IDHeader string
}

// endpoint is a verb and a path without parameters.
type endpoint struct{ verb, path string }

// Server serves both faces of a service.
type Server struct {
	options Options
	methods methodTable
	chain   chain
	codec   *codec
	grpc    *grpc.Server
	unary   map[string]bool // by full method name: unary methods of the gRPC face
	local   *local
	mux     *runtime.ServeMux
	open    map[endpoint]http.Handler
	exact   map[endpoint]http.HandlerFunc // handlers of Handle whose path has no parameter
	forms   map[endpoint]bool             // routes of HandleForm
	health  *health.Server
	errs    []error
}

// New returns a Server with no services registered except gRPC health and reflection.
func New(options Options) (*Server, error) {
	s := &Server{
		options: options,
		methods: newMethodTable(options.Role),
		unary:   make(map[string]bool),
		codec:   newCodec(options.RawJSON, options.NullJSON),
		open:    make(map[endpoint]http.Handler),
		exact:   make(map[endpoint]http.HandlerFunc),
		forms:   make(map[endpoint]bool),
		health:  health.NewServer(),
	}
	observe, err := newObserver(options.Log, options.Tracer, options.Meter)
	if err != nil {
		return nil, fmt.Errorf("rpc: instruments: %w", err)
	}
	s.chain = chain{
		{"observe", observe.step},
		{"recover", observe.recoverPanic},
		{"authorize", s.authorize},
		{"bound", s.bound},
		{"decode", s.decode},
		{"screen", s.screen},
		{"validate", validate},
	}
	s.grpc = s.newGRPC()
	s.local = newLocal(s.chain.unary(FaceHTTP, nil))
	s.mux = s.newMux()
	reflection.Register(s.grpc)
	s.grpc.RegisterService(s.inChain(&healthpb.Health_ServiceDesc), s.health)
	return s, nil
}

// RegisterService adds an implementation to both faces. It makes Server a grpc.ServiceRegistrar for the generated
// Register functions. Check reports its errors.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	if err := s.methods.add(desc); err != nil {
		s.errs = append(s.errs, err)
	}
	s.grpc.RegisterService(s.inChain(desc), impl)
	s.local.register(desc, impl)
}

// Mux returns the grpc-gateway mux on which the services' generated gateway handlers are registered, with Local as
// their connection.
func (s *Server) Mux() *runtime.ServeMux { return s.mux }

// Local returns a connection that calls the registered services in process, through the chain.
func (s *Server) Local() grpc.ClientConnInterface { return s.local }

// Handle mounts an HTTP handler for a method of a registered service that transcoding can't serve, such as a stream or
// a hot path. The handler runs inside the chain, with the role, name and metrics of the method, and takes precedence
// over the transcoded path. It may return an error only if it has written no response. Check reports a wrong pattern or
// an unknown method.
func (s *Server) Handle(verb, pattern, method string, handle func(http.ResponseWriter, *http.Request) error) {
	if _, ok := s.methods.roles[method]; !ok {
		s.errs = append(s.errs, fmt.Errorf("rpc: handler of %s %s: unknown method %s", verb, pattern, method))
		return
	}
	s.methods.route(verb, pattern, method)
	serve := func(w http.ResponseWriter, r *http.Request, c *caller.Caller) {
		call := &Call{Method: method, Face: FaceHTTP, Header: r.Header.Get, caller: c}
		answer := &startedWriter{ResponseWriter: w}
		err := s.chain.run(r.Context(), call, func(ctx context.Context) error { return handle(answer, r.WithContext(ctx)) })
		switch {
		case err != nil && answer.started:
			// A panic. Cut the connection, so that the client can't take a partial response for a complete one.
			panic(http.ErrAbortHandler)
		case err != nil:
			s.writeError(w, r, apierr.From(err))
		}
	}
	if !strings.Contains(pattern, "{") {
		s.exact[endpoint{verb, pattern}] = func(w http.ResponseWriter, r *http.Request) {
			if c, body, ok := s.enter(w, r, method, pattern); ok {
				defer body.Close()
				s.counted(w, r, c, func(w http.ResponseWriter, r *http.Request) { serve(w, r, &c) })
			}
		}
	}
	err := s.mux.HandlePath(verb, pattern, func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		for name, value := range params {
			r.SetPathValue(name, value)
		}
		serve(w, r, nil)
	})
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("rpc: handler of %s %s: %w", verb, pattern, err))
	}
}

// HandleForm is Handle for a route whose body may be a form of several parts (RFC 7578), which is read but not checked:
// the handler does.
func (s *Server) HandleForm(verb, pattern, method string, handle func(http.ResponseWriter, *http.Request) error) {
	s.forms[endpoint{verb, pattern}] = true
	s.Handle(verb, pattern, method, handle)
}

// isForm reports whether a request is a form on a route that takes one.
func (s *Server) isForm(r *http.Request, pattern string) bool {
	const form = "multipart/form-data"
	kind := r.Header.Get("Content-Type")
	return s.forms[endpoint{r.Method, pattern}] && len(kind) > len(form) && strings.EqualFold(kind[:len(form)], form)
}

// Decode reads the body of a handler's request into m and applies the contract's rules, as transcoding does: exact
// field names, no unknown fields, and raw JSON fields byte for byte. encoding/json is not used because it ignores the
// case of names and, of two equal names, keeps the last.
func (s *Server) Decode(r *http.Request, m proto.Message) error {
	text := Body(r)
	if text == nil && r.Body != nil { // A handler has replaced the body.
		var err error
		if text, err = io.ReadAll(r.Body); err != nil {
			return apierr.Invalid("body", "could not be read in whole").Wrap(err)
		}
	}
	if len(bytes.TrimSpace(text)) > 0 {
		if err := s.codec.Unmarshal(text, m); err != nil {
			return apierr.New(apierr.KindInvalid, apierr.ReasonInvalidRequest, err.Error())
		}
	}
	if err := s.refuseMessage(m); err != nil {
		return err
	}
	return ValidateRead(m, text)
}

// DecodeQuery reads the query of a handler's request into m and applies the contract's rules, as transcoding does.
func (s *Server) DecodeQuery(r *http.Request, m proto.Message) error {
	if err := runtime.PopulateQueryParameters(m, r.URL.Query(), utilities.NewDoubleArray(nil)); err != nil {
		return apierr.From(withoutParameter(status.Error(codes.InvalidArgument, err.Error())))
	}
	if err := s.refuseMessage(m); err != nil {
		return err
	}
	return Validate(m)
}

// Encode returns the JSON of a message for a handler's response, as transcoding writes it.
func (s *Server) Encode(m proto.Message) ([]byte, error) { return s.codec.Marshal(m) }

// startedWriter records whether a response has been started. http.ResponseController reaches the underlying writer
// through Unwrap.
type startedWriter struct {
	http.ResponseWriter

	started bool
}

// WriteHeader implements http.ResponseWriter.
func (w *startedWriter) WriteHeader(status int) {
	w.started = true
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *startedWriter) Write(p []byte) (int, error) {
	w.started = true
	return w.ResponseWriter.Write(p)
}

// Unwrap returns the underlying writer, for http.ResponseController.
func (w *startedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// HandleOpen mounts a handler outside the chain, without authentication: probes, metrics, documents. pattern is "GET
// /path" without parameters.
func (s *Server) HandleOpen(pattern string, h http.Handler) {
	verb, path, _ := strings.Cut(pattern, " ")
	s.open[endpoint{verb, path}] = h
}

// Served returns everything that the HTTP face serves, as "VERB /path" mapped to the full name of the gRPC method
// behind it: the contract's routes, those of Handle, and those of HandleOpen, whose method is empty.
func (s *Server) Served() map[string]string {
	methods := maps.Clone(s.methods.routes)
	for at := range s.open {
		methods[at.verb+" "+at.path] = ""
	}
	return methods
}

// Check returns the mistakes of the wiring, which must keep the service from starting: a method without a role, an
// unnamed chain step, a handler of an unknown method.
func (s *Server) Check() error {
	errs := s.errs
	for _, step := range s.chain {
		if step.name == "" || step.do == nil {
			errs = append(errs, errors.New("rpc: the chain holds an unnamed step"))
		}
	}
	return errors.Join(errs...)
}
