package api_test

import (
	"fmt"
	"testing"
)

// Invented model names, on every face and for every operation, take a bounded number of entries, whether the vendor
// serves them or not, and a listed model gets its own entry after them.
func TestInventedModelsAreBounded(t *testing.T) {
	b := setup(t)
	picture := `"image":{"base64":"` + pngText + `"},"prompt":"what is it?"`
	for _, face := range []struct{ name, path, body string }{
		{"chat", "/v1/llm/chat", messages},
		{"OpenAI's chat", completions, messages},
		{"Anthropic's messages", messagesPath, anthropicMsg},
		{"embeddings", embeddingsPath, `"input":["hi"],"provider":"first"`},
		{"OpenAI's embeddings", embeddingsPath, `"input":"hi","encoding_format":"float"`},
		{"vision", visionPath, picture},
		{"images", imagesPath, `"prompt":"a fox"`},
	} {
		before := len(b.monitor.Figures())
		reached := b.vendor.count()
		for i := range 100 {
			b.say(t, "POST", face.path, fmt.Sprintf(`{"model":"first/made-up-%d-%s",%s}`, i, "x", face.body))
		}
		if after := b.vendor.count(); after-reached < 100 {
			t.Errorf("%s: %d of 100 requests reached the vendor", face.name, after-reached)
		}
		if n := len(b.monitor.Figures()); n > 80 {
			t.Errorf("%s: %d targets, %d before", face.name, n, before)
		}
		if n := len(b.monitor.Snapshot()); n > 80 {
			t.Errorf("%s: %d circuits", face.name, n)
		}
	}
	if got := b.say(t, "POST", completions, `{"model":"second/spare",`+messages+`}`); got.status != 200 {
		t.Fatalf("a listed model: %d: %s", got.status, got.body)
	}
	for _, f := range b.monitor.Figures() {
		if f.Model == "spare" {
			return
		}
	}
	t.Error("a listed model has no place of its own")
}
