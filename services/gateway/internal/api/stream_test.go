package api_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// streams makes the vendor answer every request with pieces, each in a write of its own. It waits for next before all
// but the first; nil waits for nothing.
func (v *vendor) streams(next <-chan struct{}, pieces ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fails = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i, piece := range pieces {
			if i > 0 && next != nil {
				select {
				case <-next:
				case <-r.Context().Done():
					return
				}
			}
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

func chunkOf(delta, finish string) string {
	return `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + "}]}\n\n"
}

const streamed = `{"model":"first/ok","stream":true,"max_tokens":100000,"messages":[{"role":"user","content":"hello"}]}`

// Events that arrive together leave while the vendor is idle, whatever follows them in the same bytes.
func TestEventsLeaveWhileTheVendorIsIdle(t *testing.T) {
	b := setup(t)
	for name, rest := range map[string]string{
		"nothing":        "",
		"a comment":      ": keep-alive\n\n",
		"half an event":  `data: {"choices":[{"ind`,
		"an empty event": "data: \n\n",
		"an empty delta": chunkOf("{}", "null"),
		"a name alone":   "event: message\n\n",
	} {
		for _, path := range []string{chatPath, "/v1/chat/completions", "/v1/messages"} {
			t.Run(name+" on "+path, func(t *testing.T) {
				next := make(chan struct{})
				after := `ex":0,"delta":{},"finish_reason":null}]}` + "\n\n"
				if name != "half an event" {
					after = ""
				}
				b.vendor.streams(next,
					chunkOf(`{"role":"assistant","content":"one"}`, "null")+chunkOf(`{"content":"two"}`, "null")+rest,
					after+chunkOf("{}", `"stop"`)+"data: [DONE]\n\n")
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				resp := b.openAt(ctx, t, path, streamed)
				defer func() { _ = resp.Body.Close() }()
				var got strings.Builder
				for piece := make([]byte, 1<<10); !strings.Contains(got.String(), "two"); {
					n, err := resp.Body.Read(piece)
					_, _ = got.Write(piece[:n])
					if err != nil {
						t.Fatalf("%v after %s", err, got.String())
					}
				}
				close(next)
				if _, err := io.ReadAll(resp.Body); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A relayed stream has the vendor's events, wherever its bytes are cut.
func TestStreamsCutAnywhere(t *testing.T) {
	b := setup(t)
	var text strings.Builder
	for _, word := range []string{"plain", `qu\"oted`, "Zürich 東京 🚆", strings.Repeat("long ", 2000), ""} {
		text.WriteString(": comment\r\n" + chunkOf(`{"content":"`+word+`"}`, "null"))
	}
	text.WriteString(chunkOf("{}", `"stop"`) + "data: [DONE]\n\n")
	read := func(pieces ...string) string {
		b.vendor.streams(nil, pieces...)
		resp := b.openAt(t.Context(), t, "/v1/chat/completions", streamed)
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	whole := read(text.String())
	if n := strings.Count(whole, "data: "); n != 7 || !strings.HasSuffix(whole, "data: [DONE]\n\n") {
		t.Fatalf("%d events in %s, want the vendor's 6 and the end", n, whole)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		var pieces []string
		for rest := text.String(); rest != ""; {
			n := min(len(rest), 1+random.IntN(1+random.IntN(400)))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if diff := cmp.Diff(whole, read(pieces...)); diff != "" {
			t.Fatalf("cut in %d pieces (-whole +cut):\n%s", len(pieces), diff)
		}
	}
}
