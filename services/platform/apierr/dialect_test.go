package apierr_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// The bodies that the SDKs of other APIs read, for each kind of error.
func TestDialects(t *testing.T) {
	limited := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "slow down")
	limited.RetryAfter = 1200 * time.Millisecond
	overflow := &apierr.Error{Kind: apierr.KindInvalid, Reason: "context_overflow", Class: apierr.ClassContextOverflow, Text: "openai: status 400: too long", Cause: errors.New("said")}
	const policy = `,"error_class":"policy","retryable":false,"request_id":"r"}`
	for _, tt := range []struct {
		name, dialect string
		err           *apierr.Error
		want          string
	}{
		{"a field", "openai", apierr.Invalid("messages[0].role", "must be user"), `{"error":{"message":"messages[0].role: must be user","type":"invalid_request_error","param":"messages[0].role","code":"invalid_request"` + policy + `}`},
		{"no field", "openai", apierr.NotFound("path /v1/x"), `{"error":{"message":"path /v1/x not found","type":"invalid_request_error","param":null,"code":"not_found"` + policy + `}`},
		{"a server's text is no field", "openai", apierr.New(apierr.KindUpstream, "provider_failed", "openai: status 500: x"), `{"error":{"message":"openai: status 500: x","type":"server_error","param":null,"code":"provider_failed","error_class":"server_error","retryable":true,"request_id":"r"}}`},
		{"no key", "openai", apierr.New(apierr.KindUnauthenticated, apierr.ReasonUnauthenticated, "no"), `{"error":{"message":"no","type":"authentication_error","param":null,"code":"invalid_api_key","error_class":"auth","retryable":false,"request_id":"r"}}`},
		{"not allowed", "openai", apierr.New(apierr.KindForbidden, apierr.ReasonForbidden, "no"), `{"error":{"message":"no","type":"permission_error","param":null,"code":"forbidden","error_class":"auth","retryable":false,"request_id":"r"}}`},
		{"limited", "openai", limited, `{"error":{"message":"slow down","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded","error_class":"rate_limit","retryable":true,"retry_after":2,"request_id":"r"}}`},
		{"too long", "openai", overflow, `{"error":{"message":"openai: status 400: too long","type":"invalid_request_error","param":null,"code":"context_length_exceeded","error_class":"context_overflow","retryable":false,"request_id":"r"}}`},
		{"filtered", "openai", &apierr.Error{Kind: apierr.KindInvalid, Reason: "content_policy", Class: apierr.ClassContentPolicy, Text: "No."}, `{"error":{"message":"No.","type":"invalid_request_error","param":null,"code":"content_policy_violation","error_class":"content_policy","retryable":false,"request_id":"r"}}`},
		{"a field", "anthropic", apierr.Invalid("max_tokens", "is required"), `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: is required","code":"invalid_request"` + policy + `,"request_id":"r"}`},
		{"too long", "anthropic", overflow, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: openai: status 400: too long","code":"context_overflow","error_class":"context_overflow","retryable":false,"request_id":"r"},"request_id":"r"}`},
		{"limited", "anthropic", limited, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down","code":"rate_limited","error_class":"rate_limit","retryable":true,"retry_after":2,"request_id":"r"},"request_id":"r"}`},
		{"another", "cobol", limited, `"fallback"`},
	} {
		t.Run(tt.dialect+" "+tt.name, func(t *testing.T) {
			body := apierr.Body(tt.dialect, func(*apierr.Error, string) any { return "fallback" })
			text, err := json.Marshal(body(tt.err, "r"))
			if err != nil || string(text) != tt.want {
				t.Errorf("%v\n got %s\nwant %s", err, text, tt.want)
			}
		})
	}
	for kind, want := range map[apierr.Kind]string{
		apierr.KindUnauthenticated: "authentication_error", apierr.KindForbidden: "permission_error", apierr.KindNotFound: "not_found_error",
		apierr.KindTooLarge: "request_too_large", apierr.KindUnavailable: "overloaded_error", apierr.KindTimeout: "timeout_error",
		apierr.KindUpstream: "api_error", apierr.KindInternal: "api_error", apierr.KindConflict: "invalid_request_error",
	} {
		var got struct{ Error struct{ Type string } }
		text, err := json.Marshal(apierr.Body("anthropic", nil)(apierr.New(kind, "x", "x"), "r"))
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil || got.Error.Type != want {
			t.Errorf("kind %d: %q, want %q (%v)", kind, got.Error.Type, want, err)
		}
	}
}
