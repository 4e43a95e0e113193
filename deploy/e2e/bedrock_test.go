//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

var (
	bedrockClaude = addVendor(vendor{name: "bedrock-claude", dialect: "bedrock", model: "bedrock-claude", upstream: "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"})
	bedrockNova   = addVendor(vendor{name: "bedrock-nova", dialect: "bedrock", model: "bedrock-nova", upstream: "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.amazon.nova-pro-v1:0"})
	bedrockTitan  = addVendor(vendor{name: "bedrock-titan", dialect: "bedrock", model: "bedrock-titan", upstream: "amazon.titan-embed-text-v2:0"})
)

// messageAnswer is an answer of Anthropic's face.
type messageAnswer struct {
	ID      string `json:"id"`
	Model   string `json:"model"`
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
		Name string `json:"name"`
	} `json:"content"`
	StopReason string `json:"stop_reason"`
}

// calledAt returns the paths of the calls to a vendor whose bodies hold a text.
func (h *harness) calledAt(t *testing.T, v vendor, text string) (paths []string) {
	t.Helper()
	for _, call := range h.vendorCalls(t, v) {
		if strings.Contains(call.Body, text) {
			paths = append(paths, call.Path)
		}
	}
	return paths
}

// A body of Anthropic's form goes to Claude as it came, and so does the answer: the fake's own id and the counts that
// Bedrock adds to the last event are in it. Other models get Converse, whose answers are written anew.
func TestBedrockRelaysMessages(t *testing.T) {
	t.Parallel()
	h := use(t)
	service := h.service(stack.Gateway, unique("org"))
	for _, v := range []vendor{bedrockClaude, bedrockNova} {
		claude := v.model == bedrockClaude.model
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, streamed %v", v.model, stream), func(t *testing.T) {
				text := unique("native")
				body := ask(v.model, text, object{"max_tokens": 64, "top_k": 5, "stream": stream})
				got := string(service.with("anthropic-beta", "a-beta").post(t, "/v1/messages", body).want(t, http.StatusOK).body)
				if own := strings.Contains(got, `"id":"msg_bdrk_`); own != claude || !strings.Contains(got, `"model":"`+v.model+`"`) {
					t.Errorf("the vendor's own answer is %t: %s", own, got)
				}
				if added := strings.Contains(got, `"amazon-bedrock-invocationMetrics":{`); added != (claude && stream) {
					t.Errorf("the vendor's own counts are there: %t: %s", added, got)
				}
				if stream && (!strings.Contains(got, "event: content_block_delta\n") || !strings.HasSuffix(got, "}\n\n")) {
					t.Errorf("no stream of events: %s", got)
				}
				h.checkInvocation(t, v, text, claude)
			})
		}
	}
}

// checkInvocation checks how the request with a text came to the vendor.
func (h *harness) checkInvocation(t *testing.T, v vendor, text string, claude bool) {
	t.Helper()
	calls := h.vendorCalls(t, v)
	at := slices.IndexFunc(calls, func(call vendorCall) bool { return strings.Contains(call.Body, text) })
	if at < 0 {
		t.Fatal("the vendor has no call")
	}
	call := calls[at]
	if invoked := strings.Contains(call.Path, "/invoke"); invoked != claude {
		t.Errorf("called at %s", call.Path)
	}
	var sent map[string]json.RawMessage
	if err := json.Unmarshal([]byte(call.Body), &sent); err != nil {
		t.Fatal(err)
	}
	if claude && (sent["model"] != nil || sent["stream"] != nil || string(sent["top_k"]) != "5" ||
		string(sent["anthropic_beta"]) != `["a-beta"]` || string(sent["anthropic_version"]) != `"bedrock-2023-05-31"`) {
		t.Errorf("sent %s", call.Body)
	}
}

// A call of a tool and its result pass on Anthropic's face too, and the count is the vendor's own.
func TestBedrockMessagesWithTools(t *testing.T) {
	t.Parallel()
	h := use(t)
	service, text := h.service(stack.Gateway, unique("org")), unique("use tool")
	for _, v := range []vendor{bedrockClaude, bedrockNova} {
		body := ask(v.model, text, object{"max_tokens": 64, "tools": []object{{"name": "weather", "input_schema": weatherSchema}}})
		var got messageAnswer
		a := service.post(t, "/v1/messages", body).into(t, http.StatusOK, &got)
		if got.StopReason != "tool_use" || len(got.Content) != 1 || got.Content[0].Name != "weather" {
			t.Fatalf("%s: %s", v.model, a.body)
		}
		var document any
		if err := json.Unmarshal(a.body, &document); err != nil {
			t.Fatal(err)
		}
		again := body.with(object{"messages": append(say(text), resultOf(findObject(document, "input"))...)})
		if after := service.post(t, "/v1/messages", again).want(t, http.StatusOK); !strings.Contains(string(after.body), "Tool said: sunny") {
			t.Errorf("%s: after the result: %s", v.model, after.body)
		}
	}
	var count struct {
		Tokens    int  `json:"input_tokens"`
		Estimated bool `json:"estimated"`
	}
	text = unique("count this text")
	service.post(t, "/v1/messages/count_tokens", ask(bedrockClaude.model, text)).into(t, http.StatusOK, &count)
	if count.Tokens != len(text)/4 || count.Estimated {
		t.Errorf("counted %+v, want %d of the vendor's", count, len(text)/4)
	}
}

// Embeddings take a call for each text, and an image comes to the vendor with its bytes.
func TestBedrockMedia(t *testing.T) {
	t.Parallel()
	h := use(t)
	service := h.service(stack.Gateway, unique("org"))

	var embedded vectors
	mark := unique("embed")
	texts := []string{mark + " one", mark + " two", mark + " one"}
	service.post(t, embeddingsPath, object{"model": bedrockTitan.model, "input": texts, "dimensions": 8}).into(t, http.StatusOK, &embedded)
	if len(embedded.Data) != 3 || len(embedded.Data[1].Embedding) != 8 || !slices.Equal(embedded.Data[0].Embedding, embedded.Data[2].Embedding) {
		t.Errorf("vectors %v, want 3 of 8 dimensions, the first as the last", embedded.Data)
	}
	if u := embedded.Usage; u.Estimated || u.PromptTokens != 3*(len(texts[0])/4) || u.ProviderUsed != bedrockTitan.name {
		t.Errorf("usage %+v", u)
	}
	if n := len(h.calledAt(t, bedrockTitan, mark)); n != 3 {
		t.Errorf("%d calls, want one for each text", n)
	}

	for _, v := range []vendor{bedrockClaude, bedrockNova} {
		var seen completion
		prompt := unique("what is it")
		service.post(t, visionPath, object{"model": v.model, "prompt": prompt, "image": object{"base64": tiny, "mime_type": "image/png"}}).into(t, http.StatusOK, &seen)
		if seen.Content != "You said: "+prompt || seen.Usage.PromptTokens < 85 {
			t.Errorf("%s: vision answer %+v", v.model, seen)
		}
		if paths := h.calledAt(t, v, prompt); len(paths) != 1 || !strings.HasSuffix(paths[0], "/converse") {
			t.Errorf("%s: called at %v", v.model, paths)
		}
	}
}

// An exception in a stream ends it as an error, on each face, and says what it was.
func TestBedrockExceptionInAStream(t *testing.T) {
	t.Parallel()
	h := use(t)
	service := h.service(stack.Gateway, unique("org"))
	for _, face := range faces {
		text := unique("exception")
		h.script(t, stack.FakeProvider, rule{
			Match: object{"path": bedrockClaude.callPath(), "body": text}, Times: 1, Action: object{"error_after_chunks": 5, "status": 503},
		})
		body := face.body(bedrockClaude.model, text+" with some words").with(object{"stream": true})
		got := string(service.post(t, face.path, body).want(t, http.StatusOK).body)
		if !strings.Contains(got, "error") || !strings.Contains(got, "server_error") {
			t.Errorf("%s: %s", face.name, got)
		}
	}
}
