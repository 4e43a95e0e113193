package openai_test

import (
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/apierr"
)

// responseErrors lists all codes with which a response may fail. Source: OpenAI's OpenAPI description,
// ResponseErrorCode; bio_policy and data_residency_mismatch are in its guides.
var responseErrors = map[string]apierr.Class{
	"server_error": apierr.ClassServerError, "rate_limit_exceeded": apierr.ClassRateLimit,
	"vector_store_timeout": apierr.ClassTransient,
	"invalid_prompt":       apierr.ClassPolicy, "data_residency_mismatch": apierr.ClassPolicy,
	"bio_policy": apierr.ClassContentPolicy, "image_content_policy_violation": apierr.ClassContentPolicy,
	"invalid_image": apierr.ClassPolicy, "invalid_image_format": apierr.ClassPolicy, "invalid_base64_image": apierr.ClassPolicy,
	"invalid_image_url": apierr.ClassPolicy, "image_too_large": apierr.ClassPolicy, "image_too_small": apierr.ClassPolicy,
	"image_parse_error": apierr.ClassPolicy, "invalid_image_mode": apierr.ClassPolicy, "image_file_too_large": apierr.ClassPolicy,
	"unsupported_image_media_type": apierr.ClassPolicy, "empty_image_file": apierr.ClassPolicy,
	"failed_to_download_image": apierr.ClassPolicy, "image_file_not_found": apierr.ClassPolicy,
	// Codes of other errors.
	"context_length_exceeded": apierr.ClassContextOverflow, "insufficient_quota": apierr.ClassAuth,
	"invalid_value": apierr.ClassPolicy, "unsupported_parameter": apierr.ClassPolicy, "model_not_found": apierr.ClassPolicy,
}

// A code has the same class wherever an answer with status 200 reports it.
func TestResponseErrors(t *testing.T) {
	for code, want := range responseErrors {
		problem := `{"code":"` + code + `","message":"What is wrong."}`
		failed := `{"id":"resp_1","status":"failed","error":` + problem + `,"output":[]}`
		_, err := respondingWith(t, "application/json", failed).Chat(t.Context(), provider.Credential{}, ofResponses(`{}`))
		if got := classOf(err); got != want {
			t.Errorf("%s in a whole response: %s, want %s", code, got, want)
		}
		for place, event := range map[string]string{
			"response.failed": `{"type":"response.failed","response":` + failed + `}`,
			"a flat error":    `{"type":"error","code":"` + code + `","message":"What is wrong.","param":null,"sequence_number":2}`,
			"a nested error":  `{"type":"error","error":` + problem + `}`,
		} {
			stream, err := respondingWith(t, "text/event-stream", sseOf(`{"type":"response.created","response":{}}`, event)).StreamChat(t.Context(), provider.Credential{}, ofResponses(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = providertest.Frames(stream)
			if got := classOf(err); got != want {
				t.Errorf("%s in %s: %s, want %s", code, place, got, want)
			}
		}
	}
}

// A message that the content was flagged takes precedence over the error's code.
func TestFlaggedPrompt(t *testing.T) {
	failed := `{"status":"failed","error":{"code":"invalid_prompt","message":"Your prompt was flagged as potentially violating our usage policy."},"output":[]}`
	_, err := respondingWith(t, "application/json", failed).Chat(t.Context(), provider.Credential{}, ofResponses(`{}`))
	if got := classOf(err); got != apierr.ClassContentPolicy {
		t.Errorf("class %s, want %s", got, apierr.ClassContentPolicy)
	}
}
