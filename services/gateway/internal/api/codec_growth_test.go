package api_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestFastDecodeGrowsLinearly(t *testing.T) {
	decode := decoder(t)
	inputs := growth.Bodies(new(gatewayv1.LlmRequest).ProtoReflect().Descriptor(), chatBody)
	growth.Linear(t, growth.EachText(inputs, func(body string) {
		_ = decode(httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(body)), new(gatewayv1.LlmRequest))
	})...)
}

// Every message of the contract with its own JSON codec, in full.
func TestFastAgreesGrowsLinearly(t *testing.T) {
	decode := decoder(t)
	growth.Linear(t, growth.EachText(growth.UpTo(16<<10, growth.JSON), func(body string) {
		for _, kind := range contracts() {
			_ = decode(httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(body)), kind.New().Interface())
		}
	})...)
}

func TestToTextGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each(append(growth.JSON, growth.Around(`"`, growth.Text, `"`)...), func(raw []byte) { _, _ = api.ToText(raw) })...)
}
