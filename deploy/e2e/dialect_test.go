//go:build e2e

package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// trio is a model that three vendors have, of a dialect each.
type trio [3]vendor

func addTrio(face string, order ...string) trio {
	var t trio
	model := "trio-" + face + "-" + strings.Join(order, "-")
	for i, dialect := range order {
		t[i] = addVendor(vendor{name: fmt.Sprintf("%s-%d", model, i), dialect: dialect, model: model})
	}
	return t
}

// trios holds the trios of each face, which have vendors of their own so that the failures of one face don't affect
// another.
var trios = func() map[string][]trio {
	all := map[string][]trio{}
	for _, face := range faces {
		for _, order := range [][]string{{"openai", "anthropic", "gemini"}, {"anthropic", "gemini", "openai"}, {"gemini", "openai", "anthropic"}, {"bedrock", "openai", "gemini"}, {"anthropic", "bedrock", "openai"}} {
			all[face.name] = append(all[face.name], addTrio(face.name, order...))
		}
	}
	return all
}()

// faces are the three chat APIs, each with a request for an answer to a text.
var faces = []struct {
	name, path string
	body       func(model, text string) object
}{
	{"own", chatPath, func(model, text string) object { return ask(model, text) }},
	{"openai", "/v1/chat/completions", func(model, text string) object { return ask(model, text) }},
	{"anthropic", "/v1/messages", func(model, text string) object { return ask(model, text, object{"max_tokens": 64}) }},
}

// The requested vendor fails at the beginning of its answer, the next before it, and the last one answers, whatever
// dialects the vendors and the caller use. Whole or streamed, the answer shows no sign of the failover.
func TestFailoverAcrossDialects(t *testing.T) {
	t.Parallel()
	h := use(t)
	service := h.service(stack.Gateway, unique("org"))
	for _, face := range faces {
		for _, vendors := range trios[face.name] {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, streamed %v", vendors[0].model, stream), func(t *testing.T) {
					text, first := unique("across"), vendors[0]
					h.script(t, stack.FakeProvider,
						rule{Match: object{"path": first.callPath(), "body": text}, Times: 1, Action: failAtStart(first, stream)},
						rule{Match: object{"body": text}, Times: 1, Action: object{"drop": true}}, // The next vendor.
					)
					body := face.body(first.name+"/"+first.model, text).with(object{"stream": stream})
					a := service.post(t, face.path, body).want(t, http.StatusOK)
					by := a.header.Get("X-Switchyard-Provider")
					if n := a.header.Get("X-Switchyard-Attempts"); n != "3" || by != vendors[1].name && by != vendors[2].name {
						t.Errorf("%s attempts, served by %s, want the third", n, by)
					}
					if said := string(a.body); strings.Count(said, "said:") != 1 || strings.Contains(said, "error") {
						t.Errorf("the answer shows the failover: %s", shorten(a.body))
					}
				})
			}
		}
	}
}

// failAtStart returns the action by which a vendor fails at the beginning of its answer: an error event before any
// content, or a body that is cut off.
func failAtStart(v vendor, stream bool) object {
	if stream && v.dialect != "gemini" { // Gemini's first event is content.
		return object{"error_after_chunks": 1, "status": 500}
	}
	return object{"after_bytes": 40}
}

var geminiImageVendor = addVendor(vendor{name: "gemini-images", dialect: "gemini", model: "gemini-2.5-flash-image"})

// Gemini's other operations, over the contract's JSON face: embeddings, of which the vendor reports no tokens, are
// estimated; images are counted.
func TestGeminiMedia(t *testing.T) {
	t.Parallel()
	service := use(t).service(stack.Gateway, unique("org"))
	v := dialects[2]

	var embedded vectors
	service.post(t, embeddingsPath, object{"model": v.model, "input": []string{"one", "two"}, "dimensions": 8}).into(t, http.StatusOK, &embedded)
	if len(embedded.Data) != 2 || len(embedded.Data[1].Embedding) != 8 {
		t.Errorf("vectors %v, want 2 of 8 dimensions", embedded.Data)
	}
	if u := embedded.Usage; !u.Estimated || u.ProviderUsed != v.name {
		t.Errorf("provider %q, estimated %t, want an estimate of %s", u.ProviderUsed, u.Estimated, v.name)
	}

	var seen completion
	service.post(t, visionPath, object{"model": v.model, "prompt": "what is it", "image": object{"base64": tiny, "mime_type": "image/png"}}).into(t, http.StatusOK, &seen)
	if seen.Content != "You said: what is it" || seen.Usage.PromptTokens < 85 {
		t.Errorf("vision answer %+v", seen)
	}

	var generated pictures
	service.post(t, imagesPath, object{"model": geminiImageVendor.model, "prompt": "a cat", "n": 2}).into(t, http.StatusOK, &generated)
	if len(generated.Data) != 2 || generated.Usage.CompletionTokens != 2*1290 || generated.Usage.Estimated {
		t.Fatalf("images %+v", generated)
	}
	if png, err := base64.StdEncoding.DecodeString(generated.Data[0].Base64); err != nil || !strings.HasPrefix(string(png), "\x89PNG") {
		t.Errorf("no image: %v", err)
	}
}

// The signature that Gemini attaches to a tool call reaches Gemini again, on every face, when the caller only copies
// the call that it got, whole or from a stream.
func TestGeminiSignatureComesBack(t *testing.T) {
	t.Parallel()
	h := use(t)
	service, v := h.service(stack.Gateway, unique("org")), dialects[2]
	for _, face := range faces {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, streamed %v", face.name, stream), func(t *testing.T) {
				text := unique("use tool")
				tools := object{"tools": []object{{"type": "function", "function": object{"name": "weather", "parameters": weatherSchema}}}}
				if face.name == "anthropic" {
					tools = object{"tools": []object{{"name": "weather", "input_schema": weatherSchema}}}
				}
				first := service.post(t, face.path, face.body(v.model, text).with(tools, object{"stream": stream})).want(t, http.StatusOK)
				call, signature := signedCall(first.body)
				if signature == "" {
					t.Fatalf("no call has a signature: %s", shorten(first.body))
				}
				again := face.body(v.model, text).with(tools, object{"messages": append(say(text), resultOf(call)...)})
				after := service.post(t, face.path, again).want(t, http.StatusOK)
				if !strings.Contains(string(after.body), "Tool said: sunny") {
					t.Errorf("the answer doesn't use the tool's result: %s", shorten(after.body))
				}
				cameBack := func(seen vendorCall) bool {
					return strings.Contains(seen.Body, text) && strings.Contains(seen.Body, `"thoughtSignature":"`+signature+`"`)
				}
				if !slices.ContainsFunc(h.vendorCalls(t, v), cameBack) {
					t.Errorf("the vendor did not get the signature %q again", signature)
				}
			})
		}
	}
}

// signedCall returns the tool call with the vendor's state, in an answer or in the events of a stream, and its
// signature; nil and "" for none.
func signedCall(body []byte) (call map[string]any, signature string) {
	for line := range strings.Lines(string(body)) {
		var document any
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &document) != nil {
			continue
		}
		if call = findObject(document, "extra_content"); call != nil {
			delete(call, "index") // A call in a conversation has no index.
			signature, _ = findObject(call, "thought_signature")["thought_signature"].(string)
			return call, signature
		}
	}
	return nil, ""
}

// findObject returns the first object in a document that has a member, nil for none.
func findObject(document any, member string) map[string]any {
	switch v := document.(type) {
	case map[string]any:
		if v[member] != nil {
			return v
		}
		for _, inner := range v {
			if found := findObject(inner, member); found != nil {
				return found
			}
		}
	case []any:
		for _, inner := range v {
			if found := findObject(inner, member); found != nil {
				return found
			}
		}
	}
	return nil
}

// resultOf returns the turns of a call and its result, in the format that the call has.
func resultOf(call map[string]any) []object {
	if call["type"] == "tool_use" {
		return []object{
			{"role": "assistant", "content": []any{call}},
			{"role": "user", "content": []object{{"type": "tool_result", "tool_use_id": call["id"], "content": "sunny"}}},
		}
	}
	return []object{
		{"role": "assistant", "content": nil, "tool_calls": []any{call}},
		{"role": "tool", "tool_call_id": call["id"], "content": "sunny"},
	}
}
