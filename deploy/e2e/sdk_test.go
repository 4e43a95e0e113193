//go:build e2e

package e2e_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// Models that the SDK tests ask for: one of each dialect, known upstream by
// another name, and the gateway's own.
var (
	sdkOpenAI    = addVendor(vendor{name: "sdk-openai", dialect: "openai", model: "sdk-gpt", upstream: "sdk-gpt-upstream"})
	sdkAnthropic = addVendor(vendor{name: "sdk-anthropic", dialect: "anthropic", model: "sdk-claude", upstream: "sdk-claude-upstream"})
)

// Vendors that fail: a key that was refused, or streams that broke, keep the
// gateway away for a while, so that each test has its own.
var (
	sdkBroken   = map[string]pair{"openai": addPair("sdk-broken-openai"), "anthropic": addPair("sdk-broken-anthropic")}
	sdkRefusing = map[string]vendor{
		"openai gateway":    addVendor(vendor{name: "sdk-refusing-1", dialect: "openai", model: "sdk-refusing-1"}),
		"openai edge":       addVendor(vendor{name: "sdk-refusing-2", dialect: "openai", model: "sdk-refusing-2"}),
		"anthropic gateway": addVendor(vendor{name: "sdk-refusing-3", dialect: "anthropic", model: "sdk-refusing-3"}),
		"anthropic edge":    addVendor(vendor{name: "sdk-refusing-4", dialect: "anthropic", model: "sdk-refusing-4"}),
	}
)

// breaking are a face's models of which streams break, with the events after which.
func breaking(face string) map[string]int {
	p := sdkBroken[face]
	return map[string]int{p.first.name + "/" + p.first.model: 3, p.second.name + "/" + p.second.model: 5}
}

// door is where an SDK is pointed at: nothing else of it is changed.
type door struct {
	name              string
	openAI, anthropic string // base URLs
	key               string
	organization      string // that a service token names; a product key has its own
}

// doors are the gateway's own face and the edge, for an organization.
func (h *harness) doors(t *testing.T) []door {
	t.Helper()
	organization := unique("org")
	gateway, edge := h.URL(string(stack.Gateway)), h.URL(string(stack.Edge))+"/product/v1/ai"
	return []door{
		{"gateway", gateway + "/v1", gateway, h.Secrets().Service, organization},
		{"edge", edge + "/openai/v1", edge + "/anthropic", h.key(t, organization, "ai", "read").Key, ""},
	}
}

// The models that SDK tests ask for: scriptable are those whose answers a test may set.
var (
	scriptable = []string{sdkOpenAI.model, sdkAnthropic.model}
	sdkModels  = append(slices.Clone(scriptable), "sandbox")
)

// eachDoor runs a test at each door with a client of an SDK and each of the models.
func eachDoor[C any](t *testing.T, client func(door) C, models []string, test func(t *testing.T, h *harness, client C, model string)) {
	t.Helper()
	t.Parallel()
	h := use(t)
	for _, d := range h.doors(t) {
		for _, model := range models {
			t.Run(d.name+" "+model, func(t *testing.T) { test(t, h, client(d), model) })
		}
	}
}

// scripted makes the fake provider answer what is asked with a text of its own.
func (h *harness) scripted(t *testing.T, answer object) (question string) {
	t.Helper()
	question = unique("question")
	h.script(t, stack.FakeProvider, rule{Match: object{"body": question}, Action: object{"answer": answer}})
	return question
}

// broken makes it fail.
func (h *harness) broken(t *testing.T, action object) (question string) {
	t.Helper()
	question = unique("question")
	h.script(t, stack.FakeProvider, rule{Match: object{"body": question}, Action: action})
	return question
}

// twoCalls is an answer that calls a tool twice.
var twoCalls = object{"text": "I look.", "tool_calls": []object{
	{"name": "weather", "arguments": json.RawMessage(`{"city":"Paris"}`)},
	{"name": "weather", "arguments": json.RawMessage(`{"city":"Rome"}`)},
}}

// weatherSchema is what the tool takes.
var weatherSchema = map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}}

// Every face answers its own words' errors where no SDK would get to: before a
// body, on a path that isn't there.
func TestCompatibleFacesSpeakTheirWords(t *testing.T) {
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
		{edge.bearer(key).post(t, openAI+"/responses", object{}), http.StatusNotFound, "error"},
		{edge.with("X-Api-Key", key).post(t, anthropic+"/messages/batches", object{}), http.StatusNotFound, "type"},
		{edge.bearer(key).post(t, openAI+"/chat/completions", `{"messages":`), http.StatusBadRequest, "error"},
		{edge.with("X-Api-Key", key).post(t, anthropic+"/messages", `[]`), http.StatusBadRequest, "type"},
		{edge.post(t, openAI+"/chat/completions", object{}), http.StatusUnauthorized, "error"},
		{h.anonymous(stack.Gateway).post(t, "/v1/messages", object{}), http.StatusUnauthorized, "type"},
		{h.anonymous(stack.Gateway).get(t, "/v1/models"), http.StatusUnauthorized, "error"},
	} {
		found := tt.a.fields(t, tt.status, "error", tt.field)
		if inner, ok := found["error"].(map[string]any); tt.field == "type" && (!ok || inner["message"] == "") {
			t.Errorf("%s: %s", tt.a.label, tt.a.body)
		}
	}
}
