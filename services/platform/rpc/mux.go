package rpc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/bodymemory"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/screen"
	"switchyard.dev/services/platform/telemetry"
)

// bodyTime bounds how long a caller may take to send its body.
const bodyTime = 30 * time.Second

// statusKey is the metadata key that carries a handler's success status to the JSON face.
const statusKey = "x-http-status"

// SetStatus sets the HTTP status of a successful call, 200 by default (201, 202, 204). It has no effect over gRPC.
func SetStatus(ctx context.Context, status int) {
	_ = grpc.SetHeader(ctx, metadata.Pairs(statusKey, strconv.Itoa(status)))
}

// SetHeader adds a response header on the JSON face, and response metadata over gRPC.
func SetHeader(ctx context.Context, name, value string) {
	_ = grpc.SetHeader(ctx, metadata.Pairs(name, value))
}

// forwarded lists the request headers that become call metadata. The chain and the handlers read no others.
var forwarded = []string{
	"Authorization", "Traceparent", "Tracestate", caller.HeaderOrganization, caller.HeaderKey,
	caller.HeaderKeyTerms, caller.HeaderOwner, caller.HeaderOwnerSession, caller.HeaderUser, caller.HeaderUserVerified,
	caller.HeaderRun, caller.HeaderRequest, caller.HeaderIdempotency, caller.HeaderTags, "If-None-Match",
}

func (s *Server) newMux() *runtime.ServeMux {
	return runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, s.codec),
		runtime.WithMiddlewares(s.admit),
		runtime.WithErrorHandler(s.onError),
		runtime.WithRoutingErrorHandler(s.onRoutingError),
		runtime.WithForwardResponseOption(writeStatus),
		runtime.WithIncomingHeaderMatcher(func(name string) (string, bool) {
			return name, slices.Contains(forwarded, name)
		}),
		runtime.WithOutgoingHeaderMatcher(func(name string) (string, bool) {
			return name, name != statusKey && name != "content-type"
		}),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptSlash),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithWriteContentLength(),
	)
}

// admit runs after the path is matched and before a body is read. It refuses callers that may not call the method, then
// reads the body, bounded in size and time.
func (s *Server) admit(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		matched, _ := runtime.HTTPPattern(r.Context())
		pattern := plainPattern(matched.String())
		method, ok := s.methods.byPattern(r.Method, pattern)
		if !ok {
			s.refuse(w, r, apierr.NotFound("path"))
			return
		}
		if c, body, ok := s.enter(w, r, method, pattern); ok {
			defer body.Close()
			s.counted(w, r, c, func(w http.ResponseWriter, r *http.Request) { next(w, r, params) })
		}
	}
}

// enter authenticates a request for a method on a route's pattern, checks its URL and reads its body, whose memory the
// caller closes after the call. If any of that fails, it answers with the error and returns false.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, method, pattern string) (caller.Caller, bodymemory.Hold, bool) {
	c, err := s.authenticate(method, r.Header.Get)
	body := s.options.Bodies.Open(c.Organization)
	if err == nil {
		err = s.methods.checkURL(method, r.URL, s.dialect(r).Name != "")
	}
	if err == nil {
		err = s.readBody(w, r, &body, method, s.isForm(r, pattern))
	}
	if err != nil {
		body.Close()
		s.refuse(w, r, apierr.From(err))
	}
	return c, body, err == nil
}

// readBody replaces the request's body, which is JSON unless it is a form, with its bytes in memory, so that later code can't stall on a slow sender and
// the server never answers before it has read the request.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, memory *bodymemory.Hold, method string, isForm bool) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	body, err := s.readAll(w, r, memory) // within the time limit of boundBody
	if err != nil {
		if refused, ok := errors.AsType[*apierr.Error](err); ok {
			return refused
		}
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return apierr.New(apierr.KindTooLarge, apierr.ReasonTooLarge,
				fmt.Sprintf("body: larger than %d bytes", s.options.MaxBody))
		}
		return apierr.Invalid("body", "could not be read in whole").Wrap(err)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if isForm {
		r.Body = bufferedBody{bytes.NewReader(body), body}
		return nil
	}
	if err := s.checkBody(method, body); err != nil {
		return err
	}
	r.Body = bufferedBody{bytes.NewReader(body), body}
	return nil
}

// checkBody checks a JSON body before it is parsed.
func (s *Server) checkBody(method string, body []byte) error {
	if !utf8.Valid(body) {
		return apierr.Invalid("body", "must be UTF-8 (RFC 8259, section 8.1)")
	}
	if jsoncheck.TooDeep(body) { // Before any other code parses it.
		return apierr.Invalid("body", jsoncheck.RuleDepth)
	}
	if jsoncheck.TooMany(body) {
		return apierr.Invalid("body", jsoncheck.RuleContainers)
	}
	if s.options.RefuseBody != nil {
		if err := s.options.RefuseBody(method, body); err != nil {
			return fmt.Errorf("screen body: %w", err)
		}
	}
	return nil
}

// bufferedBody is a request body in memory.
type bufferedBody struct {
	*bytes.Reader

	text []byte
}

// Close implements io.Closer.
func (bufferedBody) Close() error { return nil }

// Body returns the complete bytes of a handler's request, however much of them was read; nil if there is no body or it
// was replaced. They must not be changed.
func Body(r *http.Request) []byte {
	if body, ok := r.Body.(bufferedBody); ok {
		return body.text
	}
	return nil
}

// readAll reads a body up to MaxBody. A body is read only after the caller is authenticated, completely, and with a limit
// on bytes and time: an unknown caller can't make the service parse anything, and no response is sent before its request
// has been read.
func (s *Server) readAll(w http.ResponseWriter, r *http.Request, memory *bodymemory.Hold) ([]byte, error) {
	if r.ContentLength > int64(s.options.MaxBody) {
		_, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, int64(s.options.MaxBody)))
		return nil, err
	}
	return memory.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.options.MaxBody)), r.ContentLength)
}

// onError writes the error of a transcoded call. An error that the chain returned has been logged already; one of
// transcoding itself (bad JSON, bad parameter) has not.
func (s *Server) onError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		s.writeError(w, r, e)
		return
	}
	s.refuse(w, r, apierr.From(withoutParameter(err)))
}

// parameterErrors matches the beginnings of transcoding's error texts about parameters, in which it repeats names and
// values. The first group is the contract's field, if the text names one.
var parameterErrors = regexp.MustCompile(
	`^(?:type mismatch, parameter: |parsing (?:field|list) "|too many values for field ")([a-z_.]{1,80})|` +
		`^(?:parsing map|more than one value provided|duplicate field|invalid path|field already set|unsupported message)`)

// withoutParameter replaces an error about a parameter by one that doesn't repeat its value.
func withoutParameter(err error) error {
	match := parameterErrors.FindStringSubmatch(status.Convert(err).Message())
	if match == nil {
		return err
	}
	return apierr.Invalid(cmp.Or(match[1], "query"), "must be one value of the field's type; that of a time is like 2006-01-02T15:04:05Z")
}

func (s *Server) onRoutingError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, status int) {
	switch status {
	case http.StatusNotFound:
		s.refuse(w, r, apierr.NotFound("path "+screen.Path(r.URL.Path, "/")))
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", strings.Join(s.methods.verbs(r.URL.Path), ", "))
		s.refuse(w, r, apierr.New(apierr.KindMethodNotAllowed, apierr.ReasonMethodNotAllowed,
			screen.Path(r.Method, "/")+" is not allowed on "+screen.Path(r.URL.Path, "/")))
	default:
		s.refuse(w, r, apierr.New(apierr.KindInvalid, apierr.ReasonInvalidRequest, "the path is malformed"))
	}
}

// refuse logs and answers a request that never reached the chain.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, e *apierr.Error) {
	s.logRefusal(telemetry.WithRequestID(r.Context(), w.Header().Get(caller.HeaderRequest)), r, e)
	s.writeError(w, r, e)
}

func (s *Server) logRefusal(ctx context.Context, r *http.Request, e *apierr.Error) {
	s.options.Log.LogAttrs(ctx, slog.LevelInfo, "refused",
		slog.String("verb", screen.Path(r.Method, "/")), slog.String("path", screen.Path(r.URL.Path, "/")), slog.Int("status", e.Kind.HTTPStatus()),
		slog.String("reason", string(e.Reason)), slog.String("error", e.Error()))
}

// writeStatus applies the status of SetStatus.
func writeStatus(ctx context.Context, w http.ResponseWriter, _ proto.Message) error {
	md, ok := runtime.ServerMetadataFromContext(ctx)
	if !ok {
		return nil
	}
	values := md.HeaderMD.Get(statusKey)
	if len(values) == 0 {
		return nil
	}
	status, err := strconv.Atoi(values[0])
	if err != nil {
		return fmt.Errorf("success status: %w", err)
	}
	if status == http.StatusNoContent {
		w.Header().Del("Content-Type")
		w.Header().Del("Content-Length")
	}
	w.WriteHeader(status)
	return nil
}

// verbs returns the verbs that a path serves, for the Allow header (RFC 9110, section 10.2.1).
func (t methodTable) verbs(path string) []string {
	var verbs []string
	segments := strings.Split(path, "/")
	for route := range t.routes {
		verb, pattern, _ := strings.Cut(route, " ")
		parts := strings.Split(pattern, "/")
		match := len(parts) == len(segments) && !slices.Contains(verbs, verb)
		for i := 0; match && i < len(parts); i++ {
			match = strings.HasPrefix(parts[i], "{") || parts[i] == segments[i]
		}
		if match {
			verbs = append(verbs, verb)
		}
	}
	slices.Sort(verbs)
	return verbs
}
