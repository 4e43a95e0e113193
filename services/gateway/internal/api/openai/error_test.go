package openai

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
		{"a field", apierr.Invalid("messages[0].role", "must be user"), `{"error":{"message":"messages[0].role: must be user","type":"invalid_request_error","param":"messages[0].role","code":"invalid_request"` + policy + `}`},
		{"no field", apierr.NotFound("path /v1/x"), `{"error":{"message":"path /v1/x not found","type":"invalid_request_error","param":null,"code":"not_found"` + policy + `}`},
		{"a server's text is no field", apierr.New(apierr.KindUpstream, "provider_failed", "openai: status 500: x"), `{"error":{"message":"openai: status 500: x","type":"server_error","param":null,"code":"provider_failed","error_class":"server_error","retryable":true,"request_id":"r"}}`},
		{"no key", apierr.New(apierr.KindUnauthenticated, apierr.ReasonUnauthenticated, "no"), `{"error":{"message":"no","type":"authentication_error","param":null,"code":"invalid_api_key","error_class":"auth","retryable":false,"request_id":"r"}}`},
		{"not allowed", apierr.New(apierr.KindForbidden, apierr.ReasonForbidden, "no"), `{"error":{"message":"no","type":"permission_error","param":null,"code":"forbidden","error_class":"auth","retryable":false,"request_id":"r"}}`},
		{"limited", limited, `{"error":{"message":"slow down","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded","error_class":"rate_limit","retryable":true,"retry_after":2,"request_id":"r"}}`},
		{"too long", overflow, `{"error":{"message":"openai: status 400: too long","type":"invalid_request_error","param":null,"code":"context_length_exceeded","error_class":"context_overflow","retryable":false,"request_id":"r"}}`},
		{"filtered", &apierr.Error{Kind: apierr.KindInvalid, Reason: "content_policy", Class: apierr.ClassContentPolicy, Text: "No."}, `{"error":{"message":"No.","type":"invalid_request_error","param":null,"code":"content_policy_violation","error_class":"content_policy","retryable":false,"request_id":"r"}}`},
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
