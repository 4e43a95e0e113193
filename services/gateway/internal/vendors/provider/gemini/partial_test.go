package gemini_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Images that the vendor generated before it refused another one are billed.
func TestImagesThatAreMadeInPart(t *testing.T) {
	var calls atomic.Int32
	for name, c := range map[string]struct {
		model  string
		answer func(asked) (int, string)
		want   provider.Usage
	}{
		"one call": {"imagen-4", func(asked) (int, string) {
			return 200, `{"predictions":[{"bytesBase64Encoded":"aQ=="},{"raiFilteredReason":"no"}]}`
		}, provider.Usage{Images: 1}},
		"a call for each": {"gemini-2.5-flash-image", func(asked) (int, string) {
			if calls.Add(1) == 2 {
				return 400, `{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}`
			}
			return 200, `{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"aQ=="}}]},"finishReason":"STOP"}],
				"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":7}}`
		}, provider.Usage{Input: 5, Output: 7, Images: 1}},
	} {
		calls.Store(0)
		_, err := vendor(t, c.answer).MakeImages(t.Context(), provider.Credential{}, &provider.ImageRequest{Model: c.model, Prompt: "a", Count: 2})
		e, ok := errors.AsType[*provider.PartialError](err)
		if !ok || e.Usage != c.want || e.Estimated {
			t.Errorf("%s: %v, billed %+v", name, err, e)
		}
	}
}
