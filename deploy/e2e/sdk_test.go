//go:build e2e

package e2e_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// Models for the SDK tests, each of another dialect and under another name at the vendor; the last is the gateway's own
// sandbox.
var (
	sdkOpenAI    = addVendor(vendor{name: "sdk-openai", dialect: "openai", model: "sdk-gpt", upstream: "sdk-gpt-upstream"})
	sdkAnthropic = addVendor(vendor{name: "sdk-anthropic", dialect: "anthropic", model: "sdk-claude", upstream: "sdk-claude-upstream"})
	sdkBedrock   = addVendor(vendor{name: "sdk-bedrock", dialect: "bedrock", model: "sdk-bedrock", upstream: "us.anthropic.claude-sdk-4-5-v1:0"})
)

// Vendors that fail. After a refused key or a broken stream the gateway avoids a vendor for a while, so each test has
// its own.
var (
	sdkBroken   = map[string]pair{"openai": addPair("sdk-broken-openai"), "anthropic": addPair("sdk-broken-anthropic")}
	sdkRefusing = map[string]vendor{
		"openai gateway":    addVendor(vendor{name: "sdk-refusing-1", dialect: "openai", model: "sdk-refusing-1"}),
		"openai edge":       addVendor(vendor{name: "sdk-refusing-2", dialect: "openai", model: "sdk-refusing-2"}),
		"anthropic gateway": addVendor(vendor{name: "sdk-refusing-3", dialect: "anthropic", model: "sdk-refusing-3"}),
		"anthropic edge":    addVendor(vendor{name: "sdk-refusing-4", dialect: "anthropic", model: "sdk-refusing-4"}),
	}
)

// breaking returns a face's models of which streams break, with the number of events before that.
func breaking(face string) map[string]int {
	p := sdkBroken[face]
	return map[string]int{p.first.name + "/" + p.first.model: 3, p.second.name + "/" + p.second.model: 5}
}

// sdkEndpoint is what an SDK is configured with; everything else is the SDK's default.
type sdkEndpoint struct {
	name              string
	openAI, anthropic string // base URLs
	gemini, azure     string
	key               string
	organization      string // sent with a service token; empty for a product key, which belongs to one
}

// sdkEndpoints returns the gateway's own face and the edge, for a new organization.
func (h *harness) sdkEndpoints(t *testing.T) []sdkEndpoint {
	t.Helper()
	return h.sdkEndpointsOf(t, unique("org"))
}

func (h *harness) sdkEndpointsOf(t *testing.T, organization string) []sdkEndpoint {
	t.Helper()
	gateway, edge := h.URL(string(stack.Gateway)), h.URL(string(stack.Edge))+"/product/v1/ai"
	return []sdkEndpoint{
		{"gateway", gateway + "/v1", gateway, gateway, gateway, h.Secrets().Service, organization},
		{"edge", edge + "/openai/v1", edge + "/anthropic", edge + "/gemini", edge + "/azure", h.key(t, organization, "ai", "read").Key, ""},
	}
}

// scriptable are the models whose answers a test may script; sdkModels are all models of the SDK tests.
var (
	scriptable = []string{sdkOpenAI.model, sdkAnthropic.model, sdkBedrock.model}
	sdkModels  = append(slices.Clone(scriptable), "sandbox")
)

// eachEndpoint runs a test at each endpoint, with a client of an SDK and each of the models.
func eachEndpoint[C any](t *testing.T, client func(sdkEndpoint) C, models []string, test func(t *testing.T, h *harness, client C, model string)) {
	t.Helper()
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		for _, model := range models {
			t.Run(d.name+" "+model, func(t *testing.T) { test(t, h, client(d), model) })
		}
	}
}

// scripted returns a question to which the fake provider gives an answer.
func (h *harness) scripted(t *testing.T, answer object) (question string) {
	t.Helper()
	question = unique("question")
	h.script(t, stack.FakeProvider, rule{Match: object{"body": question}, Action: object{"answer": answer}})
	return question
}

// broken returns a question at which the fake provider fails with an action.
func (h *harness) broken(t *testing.T, action object) (question string) {
	t.Helper()
	question = unique("question")
	h.script(t, stack.FakeProvider, rule{Match: object{"body": question}, Action: action})
	return question
}

// twoCalls is a scripted answer with two tool calls.
var twoCalls = object{"text": "I look.", "tool_calls": []object{
	{"name": "weather", "arguments": json.RawMessage(`{"city":"Paris"}`)},
	{"name": "weather", "arguments": json.RawMessage(`{"city":"Rome"}`)},
}}

// weatherSchema is the JSON Schema of the tool's arguments.
var weatherSchema = map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}}

// Each compatible face answers in its own error format also where no SDK gets to: to bodies that can't be read, and on
// unknown paths.
func TestCompatibleFacesUseTheirErrorFormats(t *testing.T) {
	t.Parallel()
	h := use(t)
	key := h.key(t, unique("org"), "ai", "read").Key
	edge := h.anonymous(stack.Edge)
	const openAI, anthropic = "/product/v1/ai/openai/v1", "/product/v1/ai/anthropic/v1"
	for _, tt := range []struct {
		a      answer
		status int
		field  string
	}{
		{edge.bearer(key).post(t, openAI+"/nothing", object{}), http.StatusNotFound, "error"},
		{edge.with("X-Api-Key", key).post(t, anthropic+"/messages/nothing", object{}), http.StatusNotFound, "type"},
		{edge.bearer(key).post(t, openAI+"/chat/completions", `{"messages":`), http.StatusBadRequest, "error"},
		{edge.with("X-Api-Key", key).post(t, anthropic+"/messages", `[]`), http.StatusBadRequest, "type"},
		{edge.post(t, openAI+"/chat/completions", object{}), http.StatusUnauthorized, "error"},
		{h.anonymous(stack.Gateway).post(t, "/v1/messages", object{}), http.StatusUnauthorized, "type"},
		{h.anonymous(stack.Gateway).get(t, "/v1/models"), http.StatusUnauthorized, "error"},
	} {
		found := tt.a.fields(t, tt.status, "error", tt.field)
		if inner, ok := found["error"].(map[string]any); tt.field == "type" && (!ok || inner["message"] == "") {
			t.Errorf("%s: the error has no message: %s", tt.a.label, tt.a.body)
		}
	}
}
