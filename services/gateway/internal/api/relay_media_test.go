package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// An internal host in a relayed call is refused before any vendor is called, since a self-hosted vendor could reach it.
// Public hosts, texts that are URLs, and images in base64 are relayed.
func TestRelayedCallsRefuseInternalHosts(t *testing.T) {
	b := relayBench(t)
	const internal = "https://10.0.0.1/a.png"
	for _, c := range []struct{ path, body, field string }{ // URL is replaced
		{"/v1/moderations", `{"input":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"URL"}}]}`, "input[1].image_url.url"},
		{"/v1/images/edits", `{"model":"painter","prompt":"x","images":[{"image_url":"URL"}]}`, "images[0].image_url"},
		{"/v1/images/edits", `{"model":"painter","prompt":"x","image":"URL"}`, "image"},
		{"/v1/images/edits", `{"model":"painter","prompt":"x","mask":{"image_url":"URL"}}`, "mask.image_url"},
		{"/v1/rerank", `{"model":"ranker","query":"q","documents":["a",{"image":"URL"}]}`, "documents[1].image"},
		{"/v1/rerank", `{"model":"ranker","query":{"content":[{"image_url":{"url":"URL"}}]},"documents":["a"]}`, "query.content[0].image_url.url"},
		{"/v2/rerank", `{"model":"rerank-v3.5","query":"q","documents":[{"image_url":{"url":"URL"}}]}`, "documents[0].image_url.url"},
		{"/v1/completions", `{"model":"text","prompt":"x","image":"URL"}`, "image"},
		{"/v1/audio/speech", `{"model":"voice","input":"x","audio_url":"URL"}`, "audio_url"},
	} {
		for _, url := range []string{internal, "http://localhost/", "file:///etc/passwd", `\u0068ttps://[::1]/`, " " + internal} {
			sent := b.vendor.count()
			got := b.post(t, c.path, strings.Replace(c.body, "URL", url, 1))
			if got.status != http.StatusBadRequest || !strings.Contains(got.body, `"`+c.field+": ") || b.vendor.count() != sent {
				t.Errorf("%s with %s at %s: %d %.300s, %d calls of a vendor", c.path, url, c.field, got.status, got.body, b.vendor.count()-sent)
			}
		}
		for _, image := range []string{"https://images.example/a.png", "iVBORw0KGgo="} {
			if got := b.post(t, c.path, strings.Replace(c.body, "URL", image, 1)); got.status != http.StatusOK {
				t.Errorf("%s with %s: %d %.300s", c.path, image, got.status, got.body)
			}
		}
	}
	if got := b.post(t, "/v1/moderations", `{"input":["`+internal+`"]}`); got.status != http.StatusOK {
		t.Errorf("a text that is a URL: %d %s", got.status, got.body)
	}
	for _, path := range []string{"/v1/images/edits", "/v1/images/variations"} {
		kind, body := form(t, "mask", "model", "painter", "prompt", "x", "image", internal)
		if got := b.post(t, path, body, "Content-Type", kind); got.status != http.StatusBadRequest || !strings.Contains(got.body, "image: ") {
			t.Errorf("a form for %s: %d %.300s", path, got.status, got.body)
		}
	}
}
