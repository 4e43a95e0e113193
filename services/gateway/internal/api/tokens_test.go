package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/serving/trace"
)

// openAIVectors sends a request as OpenAI's SDKs do.
func (b *bench) openAIVectors(t *testing.T, model, input, format string) answer {
	t.Helper()
	return b.say(t, "POST", embeddingsPath, `{"model":"`+model+`","input":`+input+`,"encoding_format":"`+format+`"}`, "X-Stainless-Lang", "python")
}

// Tokens reach a vendor of the dialect unchanged and in order, and the answer is in the requested form.
func TestTokensAreCarried(t *testing.T) {
	b := setup(t)
	floats := b.openAIVectors(t, "first/vectors", "[[11,0,2147483647],[7]]", "float")
	if want := `"embedding":[0.5,-1e-07]},{"object":"embedding","index":1,"embedding":[1.5,-1e-07]}]`; floats.status != 200 || !strings.Contains(floats.body, want) {
		t.Fatalf("%d %s", floats.status, floats.body)
	}
	if sent := b.vendor.last(); !strings.Contains(sent, `"input":[[11,0,2147483647],[7]]`) || !strings.Contains(sent, `"model":"vectors"`) {
		t.Errorf("sent %s", sent)
	}
	packed := b.openAIVectors(t, "first/vectors", "[11,0]", "base64")
	if sent := b.vendor.last(); !strings.Contains(packed.body, `"embedding":"AAAAP5W/1rM="`) || !strings.Contains(sent, `"input":[[11,0]]`) {
		t.Errorf("sent %s, answer %s", sent, packed.body)
	}
	if n := b.rows(t, "operation = 'embeddings' AND input_tokens = 8 AND output_tokens = 0 AND cost_pico_usd = 24000000 AND usage_state = 'reported'"); n != 2 {
		t.Errorf("%d rows of what the vendor reported, want 2", n)
	}
}

// If the vendor reports no usage, the tokens are counted, and the answer says that the numbers are estimated.
func TestTokensAreCounted(t *testing.T) {
	b := setup(t)
	got := b.openAIVectors(t, "first/silent", "[[1,2,3],[4,5]]", "float")
	if !strings.Contains(got.body, `"prompt_tokens":5,`) || !strings.Contains(got.body, `"estimated":true`) || !strings.Contains(got.body, `"total_tokens":5}`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if n := b.rows(t, "input_tokens = 5 AND usage_state = 'estimated'"); n != 1 {
		t.Errorf("%d rows", n)
	}
	sandbox := b.openAIVectors(t, "sandbox", "[1,2,3,4,5,6,7]", "float")
	if !strings.Contains(sandbox.body, `"prompt_tokens":7,`) || !strings.Contains(sandbox.body, `"estimated":false`) {
		t.Errorf("%d %s", sandbox.status, sandbox.body)
	}
}

// Another model would read the tokens as other words, and the error would go unnoticed: no substitute is used.
func TestTokensHaveNoSubstitute(t *testing.T) {
	b := setup(t)
	got := b.openAIVectors(t, "shared", "[1]", "float") // The first of its two hosts is down.
	if got.status != 200 || got.header.Get("X-Switchyard-Provider") != "fourth" || got.header.Get("X-Switchyard-Attempts") != "2" {
		t.Errorf("another host of the model: %d %v %s", got.status, got.header, got.body)
	}
	down := b.openAIVectors(t, "first/vectors-down", "[1]", "float")
	if down.status != 502 && down.status != 503 {
		t.Errorf("no host left: %d %s", down.status, down.body)
	}
}

// Tokens are content: sealed, returned to their owner for a replay, and hidden from readers of traces.
func TestTokensAreContent(t *testing.T) {
	b := setup(t)
	b.say(t, "POST", embeddingsPath, `{"model":"sandbox/sandbox","input":[31337,31338],"user":"u"}`, "X-Request-Id", "req-tokens").fields(t, 200)
	b.recorded(t, "req-tokens", 1)
	shown := only(t, b.get(t, "/v1/traces?request_id=req-tokens&organization_id=acme", "svc").fields(t, 200)["traces"])
	want := map[string]any{"model": "sandbox/sandbox", "input": "[tokens, 2 of them]", "user": "u"}
	if diff := cmp.Diff(want, shown["request"]); diff != "" || fmt.Sprint(shown["redactions"]) != "[tokens]" {
		t.Errorf("redactions %v; request (-want +got):\n%s", shown["redactions"], diff)
	}
	support, _ := json.Marshal(b.get(t, "/v1/support/trace/req-tokens", "sup").fields(t, 200))
	if !strings.Contains(string(support), `"message_count":1`) || strings.Contains(string(support), "31337") {
		t.Errorf("support reads %s", support)
	}
	for _, kind := range []string{trace.KindRecords, trace.KindContents} {
		if dump := b.storedTraces(t, kind); dump == "" || strings.Contains(dump, "31337") {
			t.Errorf("%s at rest hold tokens, or nothing, in %d bytes", kind, len(dump))
		}
	}
	if packet := b.get(t, "/v1/replay/req-tokens", "svc", "X-Organization-Id", "acme"); !strings.Contains(packet.body, `"input":[31337,31338]`) {
		t.Errorf("their owner reads %s", packet.body)
	}
	if strings.Contains(b.log.String(), "31337") {
		t.Error("the log holds tokens")
	}
}
