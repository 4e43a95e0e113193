package wire_test

import (
	"net/http"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestOverrideGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around(`{"a":`, growth.JSON, "}"),
		growth.Number("members", `{"a":1`, `,"a#":1`, "}"), growth.Repeat("models", `{"model":1`, `,"model":1`, "}"),
		growth.Repeat("escaped names", `{"model":1`, `,"\u006dodel":1`, "}"), growth.Repeat("a long name", `{"`, "m", `":1}`),
	)
	growth.Linear(t, growth.Each(inputs, func(text []byte) {
		_ = wire.Override(text, wire.Member{Name: "model", Value: `"ours"`}, wire.Member{Name: "messages", Value: "[]"})
	})...)
}

func TestTextGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each(growth.JSON, func(text []byte) { _ = wire.Text(gjson.ParseBytes(text)) })...)
}

func TestWaitGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) {
		_ = wire.Wait(text, noon)
		_ = wire.Limits(http.Header{"X-Ratelimit-Remaining-Tokens": {text}, "X-Ratelimit-Reset-Tokens": {text}}, noon)
		_ = wire.Shorten(text)
	})...)
}

func TestRetryAfterGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) {
		_ = wire.RetryAfter(http.Header{"Retry-After": {text}, "Retry-After-Ms": {text}}, noon)
	})...)
}
