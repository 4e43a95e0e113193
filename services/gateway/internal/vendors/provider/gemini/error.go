package gemini

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

// document is a google.rpc.Status in its JSON form.
type document struct {
	Error struct {
		Code    int      `json:"code"`
		Message string   `json:"message"`
		Status  string   `json:"status"`
		Details []detail `json:"details"`
	} `json:"error"`
}

// detail is one of google.rpc's error details: an ErrorInfo has a reason, a RetryInfo a delay.
type detail struct {
	Reason     string `json:"reason"`
	RetryDelay string `json:"retryDelay"`
}

// failed reports whether a document is an error, by itself or as the one element of a list.
func failed(root gjson.Result) bool {
	return root.Get("error").Exists() || root.Get("0.error").Exists()
}

// Classify classifies an error body. The status decides which codes and texts are compared.
func Classify(e *provider.Error, _ http.Header, body []byte) {
	doc := readError(body)
	e.Code, e.Text = doc.Error.Status, doc.Error.Message
	for _, d := range doc.Error.Details {
		if d.Reason != "" {
			e.Code = d.Reason
		}
		if wait := wire.Wait(d.RetryDelay, time.Time{}); wait > 0 && e.RetryAfter == 0 {
			e.RetryAfter = wait
		}
	}
	status := e.Status
	if doc.Error.Code >= http.StatusBadRequest {
		status = doc.Error.Code // A relay may have changed the answer's own status, or there is none.
	}
	text := strings.ToLower(e.Text)
	switch bad := status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge; {
	case bad && overflow(text):
		e.Class = apierr.ClassContextOverflow
	case bad && (keyRefused(e.Code, text) || doc.Error.Status == "FAILED_PRECONDITION"):
		e.Class = apierr.ClassAuth
	default:
		e.Class = byStatus(status, doc.Error.Status)
	}
}

// readError parses an error document, or the one element of a list of them.
func readError(body []byte) (doc document) {
	if list := []json.RawMessage{}; bytes.HasPrefix(bytes.TrimSpace(body), []byte{'['}) && json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	_ = json.Unmarshal(body, &doc)
	return doc
}

// overflow reports whether the input is too long. The second text is about bytes, which only a shorter input solves,
// too.
func overflow(text string) bool {
	return (strings.Contains(text, "input token count") && strings.Contains(text, "exceeds the maximum number of tokens")) ||
		strings.Contains(text, "request payload size exceeds")
}

func keyRefused(code, text string) bool {
	return code == "API_KEY_INVALID" || strings.Contains(text, "api key not valid") || strings.Contains(text, "api key expired") ||
		strings.Contains(text, "api key not found")
}

// refusals are the status names that blame the request.
var refusals = []string{"INVALID_ARGUMENT", "NOT_FOUND", "OUT_OF_RANGE", "ALREADY_EXISTS", "UNIMPLEMENTED"}

// byStatus returns the class of an HTTP status, or of the status's name if there is none. A status below 400 is that of
// an error inside an answer that began well, or a redirect, which the vendor doesn't send.
func byStatus(status int, name string) apierr.Class {
	switch {
	case status == http.StatusTooManyRequests, name == "RESOURCE_EXHAUSTED":
		return apierr.ClassRateLimit
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired,
		name == "UNAUTHENTICATED", name == "PERMISSION_DENIED":
		return apierr.ClassAuth
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusGatewayTimeout, status == clientClosed,
		name == "DEADLINE_EXCEEDED", name == "ABORTED", name == "CANCELLED":
		return apierr.ClassTransient
	case status >= 500, status < 400 && !slices.Contains(refusals, name):
		return apierr.ClassServerError
	}
	return apierr.ClassPolicy
}

// clientClosed is the HTTP status of CANCELLED.
const clientClosed = 499
