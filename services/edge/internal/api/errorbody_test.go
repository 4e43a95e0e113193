package api

import (
	"encoding/json"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/apierr"
)

// The bodies of the edge's own errors in each dialect; packages openai and anthropic of the gateway's api have the same.
func TestDialectBody(t *testing.T) {
	limited := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "slow down")
	limited.RetryAfter = 1200 * time.Millisecond
	exceeded := apierr.New(apierr.KindRateLimited, quota.ReasonExceeded, "used up")
	exceeded.Class, exceeded.RetryAfter = apierr.ClassPolicy, time.Hour
	credits := apierr.New(apierr.KindForbidden, quota.ReasonCreditsExhausted, "used up")
	credits.Class = apierr.ClassPolicy
	const policy = `,"error_class":"policy","retryable":false,"request_id":"r"}`
	for _, tt := range []struct {
		name, dialect string
		err           *apierr.Error
		want          string
	}{
		{"a field", route.DialectOpenAI, apierr.Invalid("messages[0].role", "must be user"), `{"error":{"message":"messages[0].role: must be user","type":"invalid_request_error","param":"messages[0].role","code":"invalid_request"` + policy + `}`},
		{"no field", route.DialectOpenAI, apierr.NotFound("path /v1/x"), `{"error":{"message":"path /v1/x not found","type":"invalid_request_error","param":null,"code":"not_found"` + policy + `}`},
		{"a server's text is no field", route.DialectOpenAI, apierr.New(apierr.KindUpstream, "provider_failed", "openai: status 500: x"), `{"error":{"message":"openai: status 500: x","type":"server_error","param":null,"code":"provider_failed","error_class":"server_error","retryable":true,"request_id":"r"}}`},
		{"no key", route.DialectOpenAI, apierr.New(apierr.KindUnauthenticated, apierr.ReasonUnauthenticated, "no"), `{"error":{"message":"no","type":"authentication_error","param":null,"code":"invalid_api_key","error_class":"auth","retryable":false,"request_id":"r"}}`},
		{"not allowed", route.DialectOpenAI, apierr.New(apierr.KindForbidden, apierr.ReasonForbidden, "no"), `{"error":{"message":"no","type":"permission_error","param":null,"code":"forbidden","error_class":"auth","retryable":false,"request_id":"r"}}`},
		{"limited", route.DialectOpenAI, limited, `{"error":{"message":"slow down","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded","error_class":"rate_limit","retryable":true,"retry_after":2,"request_id":"r"}}`},
		{"a field", route.DialectAnthropic, apierr.Invalid("max_tokens", "is required"), `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: is required","code":"invalid_request"` + policy + `,"request_id":"r"}`},
		{"limited", route.DialectAnthropic, limited, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down","code":"rate_limited","error_class":"rate_limit","retryable":true,"retry_after":2,"request_id":"r"},"request_id":"r"}`},
		{"a field", route.DialectGemini, apierr.Invalid("generationConfig.topK", "no"), `{"error":{"code":400,"message":"generationConfig.topK: no","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"invalid_request","domain":"switchyard.dev","metadata":{"error_class":"policy","request_id":"r","retryable":"false"}},{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"generationConfig.topK","description":"generationConfig.topK: no"}]}]` + policy + `}`},
		{"limited", route.DialectGemini, limited, `{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"rate_limited","domain":"switchyard.dev","metadata":{"error_class":"rate_limit","request_id":"r","retryable":"true"}},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"2s"}],"error_class":"rate_limit","retryable":true,"retry_after":2,"request_id":"r"}}`},
		{"a plan", route.DialectOpenAI, exceeded, `{"error":{"message":"used up","type":"insufficient_quota","param":null,"code":"insufficient_quota","reason":"quota_exceeded","error_class":"policy","retryable":false,"retry_after":3600,"request_id":"r"}}`},
		{"a plan", route.DialectAzure, exceeded, `{"error":{"message":"used up","type":"insufficient_quota","param":null,"code":"insufficient_quota","reason":"quota_exceeded","error_class":"policy","retryable":false,"retry_after":3600,"request_id":"r"}}`},
		{"credits", route.DialectOpenAI, credits, `{"error":{"message":"used up","type":"insufficient_quota","param":null,"code":"insufficient_quota","reason":"credits_exhausted"` + policy + `}`},
		{"a plan", route.DialectAnthropic, exceeded, `{"type":"error","error":{"type":"billing_error","message":"used up","code":"quota_exceeded","error_class":"policy","retryable":false,"retry_after":3600,"request_id":"r"},"request_id":"r"}`},
		{"credits", route.DialectAnthropic, credits, `{"type":"error","error":{"type":"billing_error","message":"used up","code":"credits_exhausted"` + policy + `,"request_id":"r"}`},
		{"a plan", route.DialectGemini, exceeded, `{"error":{"code":429,"message":"used up","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"quota_exceeded","domain":"switchyard.dev","metadata":{"error_class":"policy","request_id":"r","retryable":"false"}}],"error_class":"policy","retryable":false,"retry_after":3600,"request_id":"r"}}`},
		{"a plan", "", exceeded, `{"error":"quota_exceeded","error_class":"policy","retryable":false,"retry_after":3600,"reason":"used up","request_id":"r"}`},
		{"Switchyard's own", "", apierr.NotFound("path /v1/x"), `{"error":"not_found","error_class":"policy","retryable":false,"reason":"path /v1/x not found","request_id":"r"}`},
	} {
		t.Run(tt.dialect+" "+tt.name, func(t *testing.T) {
			text, err := json.Marshal(dialectBody(tt.dialect)(tt.err, "r"))
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != tt.want {
				t.Errorf("body\n got %s\nwant %s", text, tt.want)
			}
		})
	}
}

// The gateway's package mcp has the same.
func TestJSONRPC(t *testing.T) {
	limited := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "slow down")
	limited.RetryAfter = 1200 * time.Millisecond
	for _, tt := range []struct {
		err  *apierr.Error
		want string
	}{
		{apierr.New(apierr.KindUnauthenticated, apierr.ReasonUnauthenticated, "who"), `{"jsonrpc":"2.0","error":{"code":-31401,"message":"who","data":{"reason":"unauthenticated","error_class":"auth","retryable":false,"request_id":"r9"}}}`},
		{limited, `{"jsonrpc":"2.0","error":{"code":-31429,"message":"slow down","data":{"reason":"rate_limited","error_class":"rate_limit","retryable":true,"request_id":"r9","retry_after_ms":1200}}}`},
		{apierr.Invalid("server", "no"), `{"jsonrpc":"2.0","error":{"code":-32600,"message":"server: no","data":{"reason":"invalid_request","error_class":"policy","retryable":false,"request_id":"r9","field":"server"}}}`},
		{apierr.Internal(nil), `{"jsonrpc":"2.0","error":{"code":-32603,"message":"internal error; quote the request id to support","data":{"reason":"internal","error_class":"server_error","retryable":true,"request_id":"r9"}}}`},
	} {
		if text, err := json.Marshal(newJSONRPC(tt.err, "r9")); err != nil || string(text) != tt.want {
			t.Errorf("%s, %v; want %s", text, err, tt.want)
		}
	}
}

func TestAnthropicTypes(t *testing.T) {
	for kind, want := range map[apierr.Kind]string{
		apierr.KindUnauthenticated: "authentication_error", apierr.KindForbidden: "permission_error", apierr.KindNotFound: "not_found_error",
		apierr.KindTooLarge: "request_too_large", apierr.KindUnavailable: "overloaded_error", apierr.KindTimeout: "timeout_error",
		apierr.KindUpstream: "api_error", apierr.KindInternal: "api_error", apierr.KindConflict: "invalid_request_error",
	} {
		if got := anthropicType(kind.HTTPStatus()); got != want {
			t.Errorf("type of kind %d: %s, want %s", kind, got, want)
		}
	}
}

func TestGeminiStatuses(t *testing.T) {
	for kind, want := range map[apierr.Kind]string{
		apierr.KindUnauthenticated: "UNAUTHENTICATED", apierr.KindForbidden: "PERMISSION_DENIED", apierr.KindNotFound: "NOT_FOUND", apierr.KindConflict: "ABORTED",
		apierr.KindTooLarge: "INVALID_ARGUMENT", apierr.KindUnavailable: "UNAVAILABLE", apierr.KindTimeout: "DEADLINE_EXCEEDED",
		apierr.KindUpstream: "UNAVAILABLE", apierr.KindInternal: "INTERNAL", apierr.KindCanceled: "CANCELLED",
	} {
		if got := geminiStatusName(kind.HTTPStatus()); got != want {
			t.Errorf("status of kind %d: %s, want %s", kind, got, want)
		}
	}
}
