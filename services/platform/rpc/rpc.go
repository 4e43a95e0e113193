// Package rpc is the front of a capability service: one set of gRPC handlers
// reached over gRPC and, through grpc-gateway, over JSON, with one chain of
// steps round every call of either face. Packages app wire it, packages api
// only implement generated server interfaces.
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
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// Options of a Server. All are required but where said.
type Options struct {
	Log    *slog.Logger
	Tracer trace.Tracer
	Meter  metric.Meter
	// Tokens that the face accepts; nil switches authentication off, which a
	// service allows on loopback only.
	Tokens *caller.Tokens
	// Role and RawJSON are the contract's method and field options.
	Role, RawJSON protoreflect.ExtensionType
	// NullJSON is optional: the field option of optional fields that are null on the
	// JSON face where they are absent.
	NullJSON protoreflect.ExtensionType
	// ErrorBody renders the service's JSON error document.
	ErrorBody func(e *apierr.Error, requestID string) any
	// Dialect is optional: it says which other API's words the caller of an HTTP
	// request speaks; the zero Dialect is the service's own.
	Dialect func(r *http.Request) Dialect
	// RefuseBody and RefuseMessage are optional: they refuse what a body, before it
	// is decoded, or a message that was received on either face must not hold, before
	// the contract's rules are applied to it. What they return is the answer.
	RefuseBody    func(method string, body []byte) error
	RefuseMessage func(m any) error
	// MaxBody bounds a request in bytes, on both faces.
	MaxBody int
	// UnaryTimeout bounds a unary call; streams and HTTP handlers keep their own clocks.
	UnaryTimeout time.Duration
	// TLS is optional; with client CAs set it demands client certificates of all
	// but callers of the open HTTP handlers.
	TLS *tls.Config
}

// Dialect is another API's way to talk over HTTP, for callers who use its SDK.
type Dialect struct {
	// Name of the other API; empty is the service's own. A request in a dialect may have query parameters that its method
	// doesn't know.
	Name string
	// ErrorBody renders errors as clients of that API expect them; nil is Options.ErrorBody.
	ErrorBody func(e *apierr.Error, requestID string) any
	// KeyHeader may carry the token in place of Authorization; empty is none.
	KeyHeader string
	// IDHeader repeats X-Request-Id in the answer by another name; empty is none.
	IDHeader string
}

// place is where a handler is reached, literally.
type place struct{ verb, path string }

// Server holds both faces of a service.
type Server struct {
	options Options
	methods methodTable
	chain   chain
	codec   *codec
	grpc    *grpc.Server
	unary   map[string]bool // methods of the gRPC face that don't stream, by full name
	local   *local
	mux     *runtime.ServeMux
	open    map[place]http.Handler
	exact   map[place]http.HandlerFunc // of Handle, where the path has no parameter
	health  *health.Server
	errs    []error
}

// New returns a server without services.
func New(options Options) (*Server, error) {
	s := &Server{
		options: options,
		methods: newMethodTable(options.Role),
		unary:   make(map[string]bool),
		codec:   newCodec(options.RawJSON, options.NullJSON),
		open:    make(map[place]http.Handler),
		exact:   make(map[place]http.HandlerFunc),
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
		{"decode", decode},
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

// RegisterService adds an implementation to both faces; it makes Server a
// grpc.ServiceRegistrar for the generated Register functions.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	if err := s.methods.add(desc); err != nil {
		s.errs = append(s.errs, err)
	}
	s.grpc.RegisterService(s.inChain(desc), impl)
	s.local.register(desc, impl)
}

// Mux is where the generated gateway handlers of the services register, over Local.
func (s *Server) Mux() *runtime.ServeMux { return s.mux }

// Local reaches the registered services in process, through the chain.
func (s *Server) Local() grpc.ClientConnInterface { return s.local }

// Handle mounts an HTTP handler that transcoding can't serve (streams, hot
// paths) for a method of a registered service, through the same chain: the
// method's role, name and metrics are its own. It takes precedence over the
// transcoded path. The handler returns an error only while it has not written.
func (s *Server) Handle(verb, pattern, method string, handle func(http.ResponseWriter, *http.Request) error) {
	if _, ok := s.methods.roles[method]; !ok {
		s.errs = append(s.errs, fmt.Errorf("rpc: handler of %s %s: unknown method %s", verb, pattern, method))
		return
	}
	s.methods.route(verb, pattern, method)
	serve := func(w http.ResponseWriter, r *http.Request, c *caller.Caller) {
		call := &Call{Method: method, Face: FaceHTTP, Header: r.Header.Get, caller: c}
		answer := &beginning{ResponseWriter: w}
		err := s.chain.run(r.Context(), call, func(ctx context.Context) error { return handle(answer, r.WithContext(ctx)) })
		switch {
		case err != nil && answer.begun: // by a panic; the client must not take half an answer for a whole one
			panic(http.ErrAbortHandler)
		case err != nil:
			s.writeError(w, r, apierr.From(err))
		}
	}
	if !strings.Contains(pattern, "{") {
		s.exact[place{verb, pattern}] = func(w http.ResponseWriter, r *http.Request) {
			if c, ok := s.enter(w, r, method); ok {
				serve(w, r, &c)
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

// Decode reads the body of a handler's request into m and applies the contract's rules, as transcoding does: names as
// in the contract, no unknown field, free JSON byte for byte. encoding/json is not used: it folds the case of names and
// lets the last of two equal names win.
func (s *Server) Decode(r *http.Request, m proto.Message) error {
	text := Body(r)
	if text == nil && r.Body != nil { // A handler has put another one in its place.
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

// Encode renders a message for a handler's answer, as transcoding does.
func (s *Server) Encode(m proto.Message) ([]byte, error) { return s.codec.Marshal(m) }

// beginning remembers whether an answer has begun. Controllers reach what is
// below by Unwrap.
type beginning struct {
	http.ResponseWriter

	begun bool
}

// WriteHeader implements http.ResponseWriter.
func (b *beginning) WriteHeader(status int) {
	b.begun = true
	b.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (b *beginning) Write(p []byte) (int, error) {
	b.begun = true
	return b.ResponseWriter.Write(p)
}

// Unwrap is what http.ResponseController looks for.
func (b *beginning) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// HandleOpen mounts a plain handler outside the chain and without a caller:
// probes, metrics. pattern is "GET /path", taken literally.
func (s *Server) HandleOpen(pattern string, h http.Handler) {
	verb, path, _ := strings.Cut(pattern, " ")
	s.open[place{verb, path}] = h
}

// Served gives all that the HTTP face answers to, as "VERB /path": the contract's
// routes, those of Handle, and the open ones. Each has the full name of the gRPC
// method behind it, an open one has none.
func (s *Server) Served() map[string]string {
	methods := maps.Clone(s.methods.routes)
	for at := range s.open {
		methods[at.verb+" "+at.path] = ""
	}
	return methods
}

// Check tells what must not start: a method without a role, a chain step
// without a name, a handler of an unknown method.
func (s *Server) Check() error {
	errs := s.errs
	for _, step := range s.chain {
		if step.name == "" || step.do == nil {
			errs = append(errs, errors.New("rpc: the chain holds an unnamed step"))
		}
	}
	return errors.Join(errs...)
}
