// Package plain is an AI provider of the openai dialect for load tests: it answers every chat with the same bytes, at
// a set pace, without a script or a journal, so that it costs as little as possible.
package plain

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Config configures the provider.
type Config struct {
	// Delay before an answer or the first piece of a stream.
	Delay time.Duration
	// Pieces of a streamed answer and the pause between two of them. There is no pause in an answer of the model Burst.
	Pieces int
	Pause  time.Duration
}

// Burst is the model whose streams have no pauses.
const Burst = "burst"

// word is the text of one piece of an answer.
const word = "carriage "

// The usage that every answer reports.
const (
	PromptTokens     = 200
	CompletionTokens = 100
)

const usage = `"usage":{"prompt_tokens":200,"completion_tokens":100,"total_tokens":300}`

// Text returns the answer's text in a stream of n pieces.
func Text(n int) string { return strings.Repeat(word, n) }

// New returns the provider's handler: chat completions, whole or streamed.
func New(config Config) http.Handler {
	text := strings.TrimSpace(Text(100))
	whole := []byte(`{"id":"chatcmpl-load","object":"chat.completion","created":1700000000,"model":"load",` +
		`"choices":[{"index":0,"message":{"role":"assistant","content":"` + text + `"},"finish_reason":"stop"}],` + usage + `}`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		wait(r, config.Delay)
		if strings.Contains(string(body), `"stream":true`) {
			pause := config.Pause
			if strings.Contains(string(body), `"model":"`+Burst+`"`) {
				pause = 0
			}
			stream(w, r, config.Pieces, pause)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
		_, _ = w.Write(whole)
	})
}

func stream(w http.ResponseWriter, r *http.Request, pieces int, pause time.Duration) {
	const head = `data: {"id":"chatcmpl-load","object":"chat.completion.chunk","created":1700000000,"model":"load","choices":`
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	piece := []byte(head + `[{"index":0,"delta":{"content":"` + word + `"},"finish_reason":null}]}` + "\n\n")
	for i := range pieces {
		if i > 0 {
			wait(r, pause)
		}
		if _, err := w.Write(piece); err != nil || control.Flush() != nil {
			return
		}
	}
	_, _ = io.WriteString(w, head+`[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n"+
		head+`[],`+usage+`}`+"\n\ndata: [DONE]\n\n")
}

func wait(r *http.Request, d time.Duration) {
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}
