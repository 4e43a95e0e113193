package rpc

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// problemType is the media type of a problem document (RFC 9457).
const problemType = "application/problem+json"

// writeError writes an error on the JSON face. The body is the service's own, that of the request's dialect, or a
// problem document if the Accept header asks for one.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, e *apierr.Error) {
	body := s.dialect(r).ErrorBody
	if body == nil {
		body = s.options.ErrorBody
	}
	WriteError(w, r, e, body)
}

// WriteError writes e with the given body function and the headers that belong to its status. The edge calls it
// directly, because it has no gRPC face.
func WriteError(w http.ResponseWriter, r *http.Request, e *apierr.Error, body func(*apierr.Error, string) any) {
	requestID := w.Header().Get(caller.HeaderRequest)
	contentType := "application/json"
	var document any
	if strings.Contains(r.Header.Get("Accept"), problemType) {
		contentType, document = problemType, apierr.NewProblem(e, requestID)
	} else {
		document = body(e, requestID)
	}
	text, err := json.Marshal(document)
	if err != nil {
		text = []byte(`{"error":"internal"}`)
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Del("Content-Length")
	if seconds := e.RetryAfterSeconds(); seconds > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds))
	}
	if e.Kind == apierr.KindUnauthenticated {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if !e.ErrorClass().Retryable() {
		// SDKs decide by the status, which some permanent errors share with temporary ones.
		h.Set("X-Should-Retry", "false")
	}
	w.WriteHeader(e.Kind.HTTPStatus())
	_, _ = w.Write(text)
}
