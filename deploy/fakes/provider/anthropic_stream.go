package provider

import "encoding/json"

// The events of a Messages stream.
type (
	messageStart struct {
		Type    string  `json:"type"`
		Message message `json:"message"`
	}
	blockStart struct {
		Type         string `json:"type"`
		Index        int    `json:"index"`
		ContentBlock any    `json:"content_block"`
	}
	blockDelta struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Delta any    `json:"delta"`
	}
	blockStop struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	messageDelta struct {
		Type  string          `json:"type"`
		Delta stopDelta       `json:"delta"`
		Usage *anthropicUsage `json:"usage,omitempty"`
	}
	stopDelta struct {
		StopReason   string  `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}
	thinkingDelta struct {
		Type     string `json:"type"`
		Thinking string `json:"thinking"`
	}
	signatureDelta struct {
		Type      string `json:"type"`
		Signature string `json:"signature"`
	}
	jsonDelta struct {
		Type        string `json:"type"`
		PartialJSON string `json:"partial_json"`
	}
	bareEvent struct {
		Type string `json:"type"`
	}
)

type namedEvent struct {
	name string
	data any
}

// streamMessages sends an answer as the vendor does: message_start, a ping after the first block has opened, each
// block in pieces, message_delta with the final counts, message_stop.
func streamMessages(out events, base message, blocks []any, stop string) {
	for _, e := range messageEvents(base, blocks, stop) {
		if !out.send(e.name, encode(e.data)) {
			return
		}
	}
}

func messageEvents(base message, blocks []any, stop string) []namedEvent {
	final := base.Usage
	if final != nil {
		// The first event reports one output token; message_delta is cumulative.
		opening := *final
		opening.OutputTokens = 1
		base.Usage = &opening
		closing := *final
		closing.CacheCreation, closing.ServiceTier = nil, ""
		final = &closing
	}
	list := []namedEvent{{"message_start", messageStart{"message_start", base}}}
	for i, b := range blocks {
		empty, deltas := piecesOf(b)
		list = append(list, namedEvent{"content_block_start", blockStart{"content_block_start", i, empty}})
		if i == 0 {
			list = append(list, namedEvent{"ping", bareEvent{"ping"}})
		}
		for _, d := range deltas {
			list = append(list, namedEvent{"content_block_delta", blockDelta{"content_block_delta", i, d}})
		}
		list = append(list, namedEvent{"content_block_stop", blockStop{"content_block_stop", i}})
	}
	return append(list,
		namedEvent{"message_delta", messageDelta{"message_delta", stopDelta{StopReason: stop}, final}},
		namedEvent{"message_stop", bareEvent{"message_stop"}},
	)
}

// piecesOf returns a block as it opens, and the deltas that fill it.
func piecesOf(b any) (empty any, deltas []any) {
	switch b := b.(type) {
	case thinkingBlock:
		for _, word := range words(b.Thinking) {
			deltas = append(deltas, thinkingDelta{"thinking_delta", word})
		}
		return thinkingBlock{Type: "thinking"}, append(deltas, signatureDelta{"signature_delta", b.Signature})
	case textBlock:
		for _, word := range words(b.Text) {
			deltas = append(deltas, textBlock{Type: "text_delta", Text: word})
		}
		return textBlock{Type: "text"}, deltas
	case toolUseBlock:
		deltas = append(deltas, jsonDelta{Type: "input_json_delta"})
		for _, piece := range words(string(b.Input)) {
			deltas = append(deltas, jsonDelta{"input_json_delta", piece})
		}
		b.Input = json.RawMessage("{}")
		return b, deltas
	default:
		return b, nil
	}
}
