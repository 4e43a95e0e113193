package apierr_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/services/platform/apierr"
)

func TestFrom(t *testing.T) {
	refused := apierr.Invalid("url", "must be https")
	tests := map[string]struct {
		err    error
		status int
		reason apierr.Reason
		text   string
	}{
		"its own, wrapped":        {fmt.Errorf("enqueue: %w", refused), 400, apierr.ReasonInvalidRequest, "url: must be https"},
		"deadline":                {fmt.Errorf("read: %w", context.DeadlineExceeded), 504, apierr.ReasonTimeout, "the request ran out of time"},
		"cancelled":               {context.Canceled, 499, apierr.ReasonCancelled, "the request was cancelled"},
		"a driver's":              {errors.New("pq: password authentication failed for user gateway"), 500, apierr.ReasonInternal, "internal error; quote the request id to support"},
		"a library's status":      {status.Error(codes.InvalidArgument, "bad JSON"), 400, apierr.ReasonInvalidRequest, "bad JSON"},
		"a library's internal":    {status.Error(codes.Unknown, "secret text"), 500, apierr.ReasonInternal, "internal error; quote the request id to support"},
		"a peer that is away":     {status.Error(codes.Unavailable, "dial tcp 10.0.0.7:9102: refused"), 503, apierr.ReasonUnavailable, "a service that is needed for this is not available"},
		"a connection's":          {fmt.Errorf("read: %w", &net.OpError{Op: "read", Err: syscall.ECONNRESET}), 503, apierr.ReasonUnavailable, "a service that is needed for this is not available"},
		"a broken answer":         {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), 503, apierr.ReasonUnavailable, "a service that is needed for this is not available"},
		"a database that stops":   {fmt.Errorf("begin: %w", &pgconn.PgError{Code: "57P01"}), 503, apierr.ReasonUnavailable, "a service that is needed for this is not available"},
		"a database's constraint": {&pgconn.PgError{Code: "23505"}, 500, apierr.ReasonInternal, "internal error; quote the request id to support"},
		"a vendor's refusal":      {fmt.Errorf("secret: %w", status.Error(codes.PermissionDenied, "denied on projects/p/secrets/s")), 500, apierr.ReasonInternal, "internal error; quote the request id to support"},
		"a peer's clock":          {status.Error(codes.DeadlineExceeded, "received context error"), 504, apierr.ReasonTimeout, "the request ran out of time"},
		"unimplemented":           {status.Error(codes.Unimplemented, "method X not implemented"), 501, apierr.ReasonNotImplemented, "method X not implemented"},
		"a kind out of its table": {&apierr.Error{Kind: 99, Reason: "x", Text: "x"}, 500, "x", "x"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := apierr.From(tt.err)
			if e.Kind.HTTPStatus() != tt.status || e.Reason != tt.reason || e.Text != tt.text {
				t.Errorf("From = %d %q %q, want %d %q %q", e.Kind.HTTPStatus(), e.Reason, e.Text, tt.status, tt.reason, tt.text)
			}
		})
	}
	if apierr.From(nil) != nil {
		t.Error("From(nil) is not nil")
	}
}

// Every kind must survive the conversion to a gRPC status and back, since services pass on each other's errors.
func TestStatusRoundTrip(t *testing.T) {
	for kind := apierr.KindInvalid; kind <= apierr.KindTimeout; kind++ {
		sent := &apierr.Error{Kind: kind, Reason: "all_providers_failed", Class: apierr.ClassTransient, Text: "said", RetryAfter: 1500 * time.Millisecond}
		if kind == apierr.KindInvalid {
			sent.Violations = []apierr.Violation{{Pointer: "/order", Rule: "type: must be integer"}, {Rule: "required"}}
		}
		got := apierr.From(status.FromProto(sent.GRPCStatus().Proto()).Err())
		if diff := cmp.Diff(sent, got); diff != "" {
			t.Errorf("kind %d (-sent +got):\n%s", kind, diff)
		}
	}
}

func TestDocuments(t *testing.T) {
	e := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "slow down").Wrap(errors.New("secret-cause"))
	e.RetryAfter = 1200 * time.Millisecond
	body, err := json.Marshal(apierr.NewDocument(e, "req-1"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"error":"rate_limited","error_class":"rate_limit","retryable":true,"retry_after":2,"reason":"slow down","request_id":"req-1"}`
	if string(body) != want {
		t.Errorf("document = %s, want %s", body, want)
	}
	problem, err := json.Marshal(apierr.NewProblem(e, "req-1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range [][]byte{body, problem} {
		if strings.Contains(string(doc), "secret-cause") {
			t.Errorf("cause leaked: %s", doc)
		}
	}
	e.Violations = []apierr.Violation{{Pointer: "/order", Rule: "type: must be integer"}}
	for _, doc := range []any{apierr.NewDocument(e, "req-1"), apierr.NewProblem(e, "req-1")} {
		text, err := json.Marshal(doc)
		if err != nil || !strings.Contains(string(text), `"violations":[{"pointer":"/order","rule":"type: must be integer"}]`) {
			t.Errorf("document %s, %v", text, err)
		}
	}
	if !strings.Contains(e.Error(), "secret-cause") {
		t.Error("the log text has lost the cause")
	}
}
