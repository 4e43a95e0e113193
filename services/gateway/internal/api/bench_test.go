package api_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

// The gateway next to a plain relay, with the same vendor in one run: the difference is the cost of the gateway's work.
func BenchmarkChat(b *testing.B) {
	bench := setup(b)
	body := `{"model":"first/ok","messages":[{"role":"system","content":"` + strings.Repeat("You are brief. ", 30) + `"},{"role":"user","content":"` + strings.Repeat("Why is the sky blue? ", 20) + `"}]}`
	relay := httptest.NewServer(thinRelay(bench.vendor.URL + "/v1/chat/completions"))
	defer relay.Close()
	relayed := strings.Replace(body, "first/ok", "ok", 1)
	const options = `,"max_completion_tokens":1000,"temperature":0.2,"top_p":0.9,"presence_penalty":0.1,"frequency_penalty":0.1,"parallel_tool_calls":true,` +
		`"tools":[{"type":"function","function":{"name":"get_weather","description":"The weather of a place","parameters":{"type":"object",` +
		`"properties":{"place_name":{"type":"string"},"number_of_days":{"type":"integer"}},"required":["place_name"]}}}]}`
	for _, target := range []struct{ name, url, body string }{
		{"direct", bench.vendor.URL + "/v1/chat/completions", relayed},
		{"relay", relay.URL, relayed},
		{"gateway", bench.http.URL + "/v1/llm/chat", body},
		{"gateway by openai", bench.http.URL + "/v1/chat/completions", strings.TrimSuffix(body, "}") + options},
		{"gateway by protojson", bench.http.URL + "/v1/llm/chat", strings.Replace(body, "model", `\u006dodel`, 1)},
	} {
		b.Run(target.name, func(b *testing.B) { load(b, target.url, target.body, 1) })
		b.Run(target.name+"/16", func(b *testing.B) { load(b, target.url, target.body, 8) })
	}
}

func load(b *testing.B, url, body string, parallel int) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	b.ReportAllocs()
	begun := growth.ProcessorTime()
	defer func() {
		b.ReportMetric(float64((growth.ProcessorTime()-begun).Nanoseconds())/float64(b.N), "cpu-ns/op")
	}()
	if parallel == 1 {
		for b.Loop() {
			post(b, client, url, body)
		}
		return
	}
	b.SetParallelism(parallel)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			post(b, client, url, body)
		}
	})
}

func post(b *testing.B, client *http.Client, url, body string) {
	b.Helper()
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		b.Error(err)
		return
	}
	r.Header.Set("Authorization", "Bearer svc")
	r.Header.Set("X-Organization-Id", "acme")
	resp, err := client.Do(r)
	if err != nil {
		b.Error(err)
		return
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		b.Errorf("%d %v", resp.StatusCode, err)
	}
}

// thinRelay forwards a body and returns the answer.
func thinRelay(url string) http.Handler {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		resp, err := client.Do(request)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	})
}

// Streams of 100 events without pauses, through a relay that never flushes and through the gateway. cpu-ns/op includes
// client and vendor.
func BenchmarkStream(b *testing.B) {
	bench := setup(b)
	const events = 100
	bench.vendor.mu.Lock()
	bench.vendor.fails = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range events {
			_, _ = io.WriteString(w, chunkOf(`{"content":"carriage "}`, "null"))
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, chunkOf("{}", `"stop"`)+"data: [DONE]\n\n")
	}
	bench.vendor.mu.Unlock()
	relay := httptest.NewServer(thinRelay(bench.vendor.URL + "/v1/chat/completions"))
	defer relay.Close()
	for _, target := range []struct{ name, url string }{
		{"relay", relay.URL},
		{"openai", bench.http.URL + "/v1/chat/completions"},
		{"contract", bench.http.URL + chatPath},
		{"anthropic", bench.http.URL + "/v1/messages"},
	} {
		b.Run(target.name, func(b *testing.B) { load(b, target.url, streamed, 8) })
	}
}
