package provider

import (
	"net/http"
	"strings"
)

// frames writes the messages of an event stream, each flushed on its own.
type frames struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func startFrames(w http.ResponseWriter) frames {
	w.Header().Set("Content-Type", eventStream)
	w.WriteHeader(http.StatusOK)
	return frames{w, http.NewResponseController(w)}
}

// send writes one message. It reports whether the client is still connected.
func (f frames) send(message string) bool {
	if _, err := f.w.Write([]byte(message)); err != nil {
		return false
	}
	// A recorder in a test cannot flush, and doesn't need to.
	_ = f.rc.Flush()
	return true
}

// The events of ConverseStream. Padding hides the length of the others.
type (
	converseStart struct {
		Padding string `json:"p"`
		Role    string `json:"role"`
	}
	converseBegin struct {
		Index int           `json:"contentBlockIndex"`
		Start converseBlock `json:"start"`
	}
	converseDelta struct {
		Index   int    `json:"contentBlockIndex"`
		Delta   any    `json:"delta"`
		Padding string `json:"p"`
	}
	converseEnd struct {
		Index int `json:"contentBlockIndex"`
	}
	converseStopped struct {
		StopReason string `json:"stopReason"`
	}
	converseMetadata struct {
		Metrics latency        `json:"metrics"`
		Usage   *converseUsage `json:"usage,omitempty"`
	}
	textDelta struct {
		Text string `json:"text"`
	}
	signedDelta struct {
		Signature string `json:"signature"`
	}
	reasoningDelta struct {
		Reasoning any `json:"reasoningContent"`
	}
	inputDelta struct {
		ToolUse inputPiece `json:"toolUse"`
	}
	inputPiece struct {
		Input string `json:"input"`
	}
)

// converseEvents returns the events of an answer, in the vendor's order: the usage comes behind the end, and a text has no
// start.
func converseEvents(blocks []converseBlock, stop string, usage *converseUsage) []namedEvent {
	list := []namedEvent{{"messageStart", converseStart{"abcd", "assistant"}}}
	for i, b := range blocks {
		if b.ToolUse != nil {
			list = append(list, namedEvent{"contentBlockStart", converseBegin{i, converseBlock{ToolUse: &converseUse{ID: b.ToolUse.ID, Name: b.ToolUse.Name}}}})
		}
		for _, d := range converseDeltas(b) {
			list = append(list, namedEvent{"contentBlockDelta", converseDelta{i, d, padding(string(encode(d)))}})
		}
		list = append(list, namedEvent{"contentBlockStop", converseEnd{i}})
	}
	return append(list, namedEvent{"messageStop", converseStopped{stop}}, namedEvent{"metadata", converseMetadata{latency{1}, usage}})
}

// converseDeltas returns the deltas that make a block.
func converseDeltas(b converseBlock) (deltas []any) {
	switch {
	case b.Text != nil:
		for _, word := range words(*b.Text) {
			deltas = append(deltas, textDelta{word})
		}
	case b.Reasoning != nil:
		for _, word := range words(b.Reasoning.Text.Text) {
			deltas = append(deltas, reasoningDelta{textDelta{word}})
		}
		deltas = append(deltas, reasoningDelta{signedDelta{b.Reasoning.Text.Signature}})
	case b.ToolUse != nil:
		for _, piece := range words(string(b.ToolUse.Input)) {
			deltas = append(deltas, inputDelta{inputPiece{piece}})
		}
	}
	return deltas
}

// bedrockDialect has its events as server-sent events, which frame makes messages of.
var bedrockDialect = dialect{
	begin:     anthropicEvent("messageStart", `{"p":"ab","role":"assistant"}`),
	text:      anthropicEvent("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"{text}"}}`),
	reasoning: anthropicEvent("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"{text}"}}}`),
	call:      anthropicEvent("contentBlockStart", `{"contentBlockIndex":{index},"start":{"toolUse":{"toolUseId":"tooluse_{index}","name":"look"}}}`),
	piece:     anthropicEvent("contentBlockDelta", `{"contentBlockIndex":{index},"delta":{"toolUse":{"input":"{text}"}}}`),
	end:       anthropicEvent("messageStop", `{"stopReason":"end_turn"}`) + anthropicEvent("metadata", `{"usage":{usage}}`),
	whole:     `{"output":{"message":{"role":"assistant","content":[{"text":"{text}"}{,calls}]}},"stopReason":"end_turn","usage":{usage}}`,
	wholeCall: `{"toolUse":{"toolUseId":"tooluse_{index}","name":"look","input":{"a":"{text}"}}}`,
	usage:     `{"inputTokens":{n},"outputTokens":{n},"totalTokens":{n},"cacheReadInputTokens":{n},"cacheWriteInputTokens":{n}}`,
	frame:     eventFrame,
}

// bedrockDialectOf returns the dialect of an operation: InvokeModel has those of the models.
func bedrockDialectOf(r *http.Request) dialect {
	if !strings.Contains(r.URL.Path, "/invoke") {
		return bedrockDialect
	}
	within := anthropicDialect
	within.frame = chunkFrame
	return within
}
