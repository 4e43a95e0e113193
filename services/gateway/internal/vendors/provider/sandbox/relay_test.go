package sandbox

import (
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// The sandbox answers every relayed call as its API does.
func TestRelay(t *testing.T) {
	file := []provider.FormPart{{Name: "file", FileName: "a.wav", Data: []byte("1234")}}
	for name, c := range map[string]struct {
		call provider.Relay
		want string
	}{
		"completion":            {provider.Relay{Operation: provider.OperationCompletions, Body: []byte(`{"prompt":"hello"}`)}, `"text":"hello"`},
		"streamed completion":   {provider.Relay{Operation: provider.OperationCompletions, Body: []byte(`{"prompt":"hello"}`), Stream: true}, "[DONE]"},
		"moderation":            {provider.Relay{Operation: provider.OperationModerations, Body: []byte(`{"input":["a","b"]}`)}, `"flagged":false},{`},
		"moderation of one":     {provider.Relay{Operation: provider.OperationModerations, Body: []byte(`{"input":"a"}`)}, `"flagged":false}]`},
		"speech":                {provider.Relay{Operation: provider.OperationSpeech, Estimate: provider.Usage{Characters: 5}}, "WAVEfmt"},
		"speech in events":      {provider.Relay{Operation: provider.OperationSpeech, Stream: true}, "stream_format"},
		"transcription":         {provider.Relay{Operation: provider.OperationTranscriptions, Parts: file}, "4 bytes"},
		"transcription as text": {provider.Relay{Operation: provider.OperationTranscriptions, Parts: append(file, provider.FormPart{Name: "response_format", Data: []byte("text")})}, "4 bytes.\n"},
		"subtitles":             {provider.Relay{Operation: provider.OperationTranscriptions, Parts: append(file, provider.FormPart{Name: "response_format", Data: []byte("srt")})}, "response_format"},
		"rerank":                {provider.Relay{Operation: provider.OperationRerank, API: "openai", Body: []byte(`{"query":"red car","documents":["a boat","a red car"]}`)}, `"results":[{"index":1,"relevance_score":1}`},
		"rerank of Cohere":      {provider.Relay{Operation: provider.OperationRerank, API: "cohere", Body: []byte(`{"query":"car","documents":["a boat",{"text":"a car"}],"top_n":1}`), Estimate: provider.Usage{Searches: 1}}, `"search_units":1`},
		"images":                {provider.Relay{Operation: provider.OperationImages, Body: []byte(`{"prompt":"a cat","background":"auto"}`), Estimate: provider.Usage{Images: 1}}, `"b64_json":"iVBOR`},
		"a chat":                {provider.Relay{Operation: provider.OperationChat}, "no such call"},
	} {
		t.Run(name, func(t *testing.T) {
			c.call.Model = "sandbox"
			stream, err := New(Config{}).Relay(t.Context(), provider.Credential{}, &c.call)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("err = %v, want %q", err, c.want)
				}
				return
			}
			var got strings.Builder
			for {
				event, err := stream.Next()
				if err != nil {
					break
				}
				got.Write(event.Native)
			}
			if !strings.Contains(got.String(), c.want) {
				t.Errorf("%.200q, want %q", got.String(), c.want)
			}
		})
	}
}
