package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
)

const lackPolicy = `
default_model: f2/m
providers:
  - {name: f1, dialect: openai, base_url: %[1]s, key_file: first.key, models: [{name: m, identity: same}]}
  - {name: f2, dialect: anthropic, base_url: %[1]s, key_file: first.key, models: [{name: m, identity: same}]}
goals: {quality: [f2/m, f1/m]}
`

// If a vendor refuses a request for what the vendor lacks, the model's next host is tried, and the refusal doesn't
// count against the vendor. A caller's mistake is still returned to the caller.
func TestVendorsLackIsNoFaultOfTheCaller(t *testing.T) {
	b := setupWith(t, lackPolicy)
	refuse := func(status int, text string) {
		b.vendor.mu.Lock()
		defer b.vendor.mu.Unlock()
		b.vendor.fails = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if strings.HasSuffix(r.URL.Path, "/messages") {
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"type":"error","error":{"type":"invalid_request_error","message":%q}}`, text)
				return
			}
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"from f1"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
		}
	}
	faces := map[string]string{
		chatPath: `{"model":"f2/m",` + messages + `}`, completions: `{"model":"f2/m",` + messages + `}`,
		responsesPath:                         `{"model":"f2/m","store":false,"input":"hi"}`,
		"/v1beta/models/f2/m:generateContent": `{"contents":[{"parts":[{"text":"hi"}]}]}`,
		messagesPath:                          `{"model":"f2/m",` + anthropicMsg + `}`,
	}
	for i := range 4 { // More failures than open a circuit, two of them with an error in a 200 answer.
		refuse([]int{http.StatusBadRequest, http.StatusOK}[i%2], "output_config.format.schema: properties maximum, minimum are not supported")
		for path, body := range faces {
			before := b.vendor.count()
			got := b.say(t, "POST", path, body)
			if calls := b.vendor.count() - before; got.status != 200 || !strings.Contains(got.body, "from f1") || calls != 2 {
				t.Errorf("%s: %d %s after %d calls", path, got.status, got.body, calls)
			}
		}
	}
	refuse(http.StatusBadRequest, "messages: at least one message is required")
	for path, body := range faces {
		before := b.vendor.count()
		if got := b.say(t, "POST", path, body); got.status != 400 || b.vendor.count() != before+1 {
			t.Errorf("%s: %d %s after %d calls, want the caller's fault", path, got.status, got.body, b.vendor.count()-before)
		}
	}
}

// Streamed calls have the caller's function names on every face that streams.
func TestNamesOfStreams(t *testing.T) {
	const name = "devserver.stop"
	b := setupWith(t, limitsPolicy())
	b.vendor.mu.Lock()
	b.vendor.fails = func(w http.ResponseWriter, r *http.Request) {
		found := sentName.FindStringSubmatch(requestText(r))
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":%q,\"arguments\":\"{}\"}}]}}]}\n\n", found[1])
		_, _ = io.WriteString(w, `data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`+"\n\ndata: [DONE]\n\n")
	}
	b.vendor.mu.Unlock()
	q := question{tool: name, parameters: `{"type":"object"}`}
	for face, write := range limitedFaces {
		path, body := write("openai/gpt-4o", &q)
		if face == "gemini" {
			path = strings.Replace(path, ":generateContent", ":streamGenerateContent", 1) + "?alt=sse"
		} else {
			body = `{"stream":true,` + body[1:]
		}
		got := b.say(t, "POST", path, body)
		if sent := b.vendor.last(); got.status != 200 || !strings.Contains(got.body, `"`+name+`"`) || strings.Contains(got.body, "devserver_stop") || !strings.Contains(sent, "devserver_stop_") {
			t.Errorf("%s: sent %s\n%d %s", face, sent, got.status, got.body)
		}
	}
	client, md := b.client()
	stream, err := client.ChatStream(metadata.NewOutgoingContext(t.Context(), md), &gatewayv1.LlmRequest{
		Model: "openai/gpt-4o", Messages: user("hi"), Tools: []*gatewayv1.Tool{{Type: "function", Function: &gatewayv1.ToolFunction{Name: name}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for {
		chunk, err := stream.Recv()
		if err != nil {
			t.Fatal("no call over gRPC:", err)
		}
		if calls := chunk.GetToolCalls(); len(calls) > 0 {
			if got := calls[0].GetFunction().GetName(); got != name {
				t.Errorf("over gRPC the function is %q", got)
			}
			return
		}
	}
}
