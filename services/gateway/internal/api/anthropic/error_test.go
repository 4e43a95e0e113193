package anthropic

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"switchyard.dev/services/platform/apierr"
)

func TestErrorBody(t *testing.T) {
	limited := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "slow down")
	limited.RetryAfter = 1200 * time.Millisecond
	overflow := &apierr.Error{Kind: apierr.KindInvalid, Reason: "context_overflow", Class: apierr.ClassContextOverflow, Text: "openai: status 400: too long", Cause: errors.New("said")}
	const policy = `,"error_class":"policy","retryable":false,"request_id":"r"}`
	for _, tt := range []struct {
		name string
		err  *apierr.Error
		want string
	}{
		{"a field", apierr.Invalid("max_tokens", "is required"), `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: is required","code":"invalid_request"` + policy + `,"request_id":"r"}`},
		{"too long", overflow, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: openai: status 400: too long","code":"context_overflow","error_class":"context_overflow","retryable":false,"request_id":"r"},"request_id":"r"}`},
		{"limited", limited, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down","code":"rate_limited","error_class":"rate_limit","retryable":true,"retry_after":2,"request_id":"r"},"request_id":"r"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, err := json.Marshal(ErrorBody(tt.err, "r"))
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != tt.want {
				t.Errorf("body\n got %s\nwant %s", text, tt.want)
			}
		})
	}
}

func TestErrorTypes(t *testing.T) {
	for kind, want := range map[apierr.Kind]string{
		apierr.KindUnauthenticated: "authentication_error", apierr.KindForbidden: "permission_error", apierr.KindNotFound: "not_found_error",
		apierr.KindTooLarge: "request_too_large", apierr.KindUnavailable: "overloaded_error", apierr.KindTimeout: "timeout_error",
		apierr.KindUpstream: "api_error", apierr.KindInternal: "api_error", apierr.KindConflict: "invalid_request_error",
	} {
		if got := errorType(kind.HTTPStatus()); got != want {
			t.Errorf("type of kind %d: %s, want %s", kind, got, want)
		}
	}
}
