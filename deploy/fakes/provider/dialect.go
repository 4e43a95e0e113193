package provider

import (
	"net/http"
	"strings"
)

// dialect holds the texts of a vendor's answers, with placeholders. They are no structs, since hostile answers hold
// what no type can. {text} is the inside of a JSON string, {n} a JSON value, {index} the number of a tool call.
type dialect struct {
	// Texts of a stream: whole events, with their empty lines.
	begin, text, reasoning, call, piece, end string
	// done is the last event of a stream.
	done string
	// whole is a whole answer; wholeCall is one of its tool calls.
	whole, wholeCall string
	usage            string
	// frame returns the frames of whole events; nil where the vendor sends server-sent events.
	frame func(name, data string) string
}

// framed returns a stream's text as the vendor sends it. What is not a whole event stays as it is.
func (t dialect) framed(text string) string {
	if t.frame == nil {
		return text
	}
	var out strings.Builder
	for piece := range strings.SplitAfterSeq(text, "\n\n") {
		name, rest, hasName := strings.Cut(strings.TrimPrefix(piece, "event: "), "\ndata: ")
		data, whole := strings.CutSuffix(rest, "\n\n")
		if !hasName || !whole {
			out.WriteString(piece)
			continue
		}
		out.WriteString(t.frame(name, data))
	}
	return out.String()
}

// mediaType returns the media type of the vendor's streams.
func (t dialect) mediaType() string {
	if t.frame == nil {
		return "text/event-stream"
	}
	return eventStream
}

const openAIChunk = `data: {"id":"chatcmpl-hostile","object":"chat.completion.chunk","created":1767225600,"model":"hostile","choices":[{"index":0,"delta":{delta},"finish_reason":null}]}` + "\n\n"

func openAIDelta(delta string) string { return strings.Replace(openAIChunk, "{delta}", delta, 1) }

var openAIDialect = dialect{
	begin:     openAIDelta(`{"role":"assistant","content":""}`),
	text:      openAIDelta(`{"content":"{text}"}`),
	reasoning: openAIDelta(`{"reasoning_content":"{text}"}`),
	call:      openAIDelta(`{"tool_calls":[{"index":{index},"id":"call_{index}","type":"function","function":{"name":"look","arguments":""}}]}`),
	piece:     openAIDelta(`{"tool_calls":[{"index":{index},"function":{"arguments":"{text}"}}]}`),
	end: `data: {"id":"chatcmpl-hostile","object":"chat.completion.chunk","created":1767225600,"model":"hostile","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" +
		`data: {"id":"chatcmpl-hostile","object":"chat.completion.chunk","created":1767225600,"model":"hostile","choices":[],"usage":{usage}}` + "\n\n",
	done:      "data: [DONE]\n\n",
	whole:     `{"id":"chatcmpl-hostile","object":"chat.completion","created":1767225600,"model":"hostile","choices":[{"index":0,"message":{"role":"assistant","content":"{text}","tool_calls":[{calls}]},"finish_reason":"stop"}],"usage":{usage}}`,
	wholeCall: `{"id":"call_{index}","type":"function","function":{"name":"look","arguments":"{text}"}}`,
	usage:     `{"prompt_tokens":{n},"completion_tokens":{n},"total_tokens":{n},"prompt_tokens_details":{"cached_tokens":{n}}}`,
}

func anthropicEvent(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

var anthropicDialect = dialect{
	begin: anthropicEvent("message_start", `{"type":"message_start","message":{"id":"msg_hostile","type":"message","role":"assistant","model":"hostile","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}`),
	text: anthropicEvent("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`) +
		anthropicEvent("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"{text}"}}`) +
		anthropicEvent("content_block_stop", `{"type":"content_block_stop","index":0}`),
	reasoning: anthropicEvent("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`) +
		anthropicEvent("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"{text}"}}`) +
		anthropicEvent("content_block_stop", `{"type":"content_block_stop","index":0}`),
	call:  anthropicEvent("content_block_start", `{"type":"content_block_start","index":{index},"content_block":{"type":"tool_use","id":"toolu_{index}","name":"look","input":{}}}`),
	piece: anthropicEvent("content_block_delta", `{"type":"content_block_delta","index":{index},"delta":{"type":"input_json_delta","partial_json":"{text}"}}`),
	end:   anthropicEvent("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{usage}}`),
	done:  anthropicEvent("message_stop", `{"type":"message_stop"}`),
	whole: `{"id":"msg_hostile","type":"message","role":"assistant","model":"hostile","content":[{"type":"text","text":"{text}"}{,calls}],"stop_reason":"end_turn","stop_sequence":null,"usage":{usage}}`,

	wholeCall: `{"type":"tool_use","id":"toolu_{index}","name":"look","input":{"a":"{text}"}}`,
	usage:     `{"input_tokens":{n},"output_tokens":{n},"cache_read_input_tokens":{n},"cache_creation_input_tokens":{n}}`,
}

func geminiChunk(part string) string {
	return `data: {"candidates":[{"content":{"role":"model","parts":[` + part + `]},"index":0}],"modelVersion":"hostile","responseId":"hostile"}` + "\n\n"
}

const geminiFunctionCall = `{"functionCall":{"id":"call-{index}","name":"look","args":{"a":"{text}"}}}`

var geminiDialect = dialect{
	text:      geminiChunk(`{"text":"{text}"}`),
	reasoning: geminiChunk(`{"text":"{text}","thought":true}`),
	piece:     geminiChunk(geminiFunctionCall),
	end:       `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"."}]},"finishReason":"STOP","index":0}],"usageMetadata":{usage},"modelVersion":"hostile","responseId":"hostile"}` + "\n\n",
	whole:     `{"candidates":[{"content":{"role":"model","parts":[{"text":"{text}"}{,calls}]},"finishReason":"STOP","index":0}],"usageMetadata":{usage},"modelVersion":"hostile","responseId":"hostile"}`,
	wholeCall: geminiFunctionCall,
	usage:     `{"promptTokenCount":{n},"candidatesTokenCount":{n},"thoughtsTokenCount":{n},"totalTokenCount":{n}}`,
}

func dialectOf(r *http.Request) dialect {
	switch {
	case speaksBedrock(r):
		return bedrockDialectOf(r)
	case speaksGemini(r):
		return geminiDialect
	case speaksAnthropic(r):
		return anthropicDialect
	}
	return openAIDialect
}

// count returns a usage in which every number is n.
func (t dialect) count(n string) string { return strings.ReplaceAll(t.usage, "{n}", n) }

// answer returns a whole answer.
func (t dialect) answer(text string, calls []string, usage string) string {
	list := strings.Join(calls, ",")
	behind := ""
	if list != "" {
		behind = "," + list
	}
	return strings.NewReplacer("{text}", text, "{,calls}", behind, "{calls}", list, "{usage}", usage).Replace(t.whole)
}

func (t dialect) oneCall(index, text string) string {
	return strings.NewReplacer("{index}", index, "{text}", text).Replace(t.wholeCall)
}

// textEvent returns a piece of text of a stream.
func (t dialect) textEvent(text string) string { return strings.ReplaceAll(t.text, "{text}", text) }

// callEvent returns the event that opens a tool call of a stream.
func (t dialect) callEvent(index string) string { return strings.ReplaceAll(t.call, "{index}", index) }

// argumentsEvent returns a piece of a tool call's arguments.
func (t dialect) argumentsEvent(index, text string) string {
	return strings.NewReplacer("{index}", index, "{text}", text).Replace(t.piece)
}

// endEvents returns the end of a stream, with its reason and usage.
func (t dialect) endEvents(usage string) string {
	return strings.ReplaceAll(t.end, "{usage}", usage) + t.done
}
