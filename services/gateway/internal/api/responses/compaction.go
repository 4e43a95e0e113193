package responses

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/platform/apierr"
)

// typeCompaction is the type of the item that stands for a shortened conversation.
const typeCompaction = "compaction"

// Compaction is one request to shorten a conversation. A model writes a summary of it, which any model can read later: a
// vendor's own compaction could be read by that vendor and account alone, and with it the conversation would be lost to all
// others. It implements dialect.Writer. Source: OpenAI API reference, "Compact a response".
type Compaction struct {
	*Exchange

	// kept are the messages of the user that stay as they are.
	kept []json.RawMessage
}

// summaryRequest is the request that asks a model for a summary.
type summaryRequest struct {
	Model        json.RawMessage   `json:"model,omitempty"`
	Instructions json.RawMessage   `json:"instructions,omitempty"`
	Input        []json.RawMessage `json:"input"`
	Store        bool              `json:"store"`
	CacheKey     json.RawMessage   `json:"prompt_cache_key,omitempty"`
	ServiceTier  json.RawMessage   `json:"service_tier,omitempty"`
	Extension    json.RawMessage   `json:"switchyard,omitempty"`
}

// summaryPrompt is what the model is asked, after the conversation.
const summaryPrompt = "Summarize the conversation above for an assistant that will continue it without having read it. " +
	"Give the task and its constraints, the facts and decisions so far with their names, paths and numbers, " +
	"what is done, what is open, and the next step. Answer with the summary only."

// summaryHead introduces a summary where it stands for the conversation.
const summaryHead = "Summary of the conversation so far:\n\n"

// ReadCompaction parses a request. from finds the conversation that it refers to; nil where nothing is stored.
func ReadCompaction(body []byte, header http.Header, from History) (*dialect.Chat, *Compaction, error) {
	o, err := dialect.Parse(body)
	if err != nil {
		return nil, nil, err
	}
	items, err := conversationOf(o, from)
	if err != nil {
		return nil, nil, err
	}
	if len(items) == 0 {
		return nil, nil, apierr.Invalid("input", "is required, or previous_response_id")
	}
	asked := summaryRequest{
		Model: o.Raw("model"), Instructions: o.Raw("instructions"), CacheKey: o.Raw("prompt_cache_key"),
		ServiceTier: o.Raw("service_tier"), Extension: o.Raw(dialect.Extension), Input: plain(items),
	}
	asked.Input = append(asked.Input, userMessage(summaryPrompt))
	text, err := jsontext.Marshal(asked)
	if err != nil {
		return nil, nil, apierr.Internal(err)
	}
	chat, exchange, err := Read(text, header, nil)
	if err != nil {
		return nil, nil, err
	}
	compaction := &Compaction{Exchange: exchange, kept: ofUser(items)}
	chat.Writer, chat.Unknown = compaction, nil
	return chat, compaction, nil
}

// conversationOf returns the items of a conversation that a request names or holds.
func conversationOf(o *dialect.Object, from History) ([]json.RawMessage, error) {
	r := &reader{Object: o, exchange: &Exchange{}}
	if err := o.Take("previous_response_id", &r.exchange.echo.PreviousResponseID); err != nil {
		return nil, err
	}
	if err := r.history(from); err != nil {
		return nil, err
	}
	return r.list, nil
}

// userMessage returns a message of the user.
func userMessage(text string) json.RawMessage {
	return append(jsontext.AppendText([]byte(`{"type":"message","role":"user","content":`), text), '}')
}

// plain returns items as messages alone: a request without tools may hold no calls at some vendors. What a call and its
// result say becomes text; reasoning, and what only a vendor can read, is left out.
func plain(items []json.RawMessage) []json.RawMessage {
	var out []json.RawMessage
	for _, raw := range items {
		item := gjson.ParseBytes(raw)
		switch item.Get("type").Str {
		case typeMessage, "":
			out = append(out, raw)
		case typeFunctionCall, typeCustomCall:
			out = append(out, userMessage("The assistant called "+item.Get("name").Str+": "+item.Get("arguments").Str+item.Get("input").Str))
		case "function_call_output", "custom_tool_call_output":
			out = append(out, userMessage("The result of the call: "+textOf(item.Get("output"))))
		case typeCompaction:
			if summary, ok := openSummary(item.Get("encrypted_content").Str); ok {
				out = append(out, userMessage(summaryHead+summary))
			}
		}
	}
	return out
}

// textOf returns the text of a result: a string, or the texts of its parts.
func textOf(output gjson.Result) string {
	if !output.IsArray() {
		return output.Str
	}
	var text bytes.Buffer
	output.ForEach(func(_, part gjson.Result) bool {
		text.WriteString(part.Get("text").Str)
		return true
	})
	return text.String()
}

// maxKept bounds the messages of the user that are kept, in bytes.
const maxKept = 64 << 10

// ofUser returns the last messages of the user, in their order.
func ofUser(items []json.RawMessage) (kept []json.RawMessage) {
	left := maxKept
	for _, raw := range slices.Backward(items) {
		item := gjson.ParseBytes(raw)
		if item.Get("role").Str != "user" {
			continue
		}
		if left -= len(raw); left < 0 {
			break
		}
		kept = append(kept, raw)
	}
	slices.Reverse(kept)
	return kept
}

// compacted is the answer.
type compacted struct {
	ID        string            `json:"id"`
	Object    string            `json:"object"`
	CreatedAt int64             `json:"created_at"`
	Output    []json.RawMessage `json:"output"`
	Usage     *usage            `json:"usage"`
}

type compactionItem struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Content string `json:"encrypted_content"`
}

// Answer implements dialect.Writer.
func (c *Compaction) Answer(_ dialect.Reply, completion *inference.Completion) ([]byte, error) {
	if completion.Text == "" {
		return nil, apierr.Unavailable("the model wrote no summary; try again", nil)
	}
	output := answerItems{list: slices.Clone(c.kept)}
	output.add(compactionItem{newID("cmp"), typeCompaction, sealSummary(completion.Text)})
	if output.err != nil {
		return nil, output.err
	}
	return jsontext.Marshal(compacted{c.ID, "response.compaction", c.created.Unix(), output.list, toUsage(completion.Report)})
}

// summaryKey is the key of a summary in the state of an item; no call has such an id.
const summaryKey = "\x00summary"

// sealSummary returns a summary as the content of an item.
func sealSummary(text string) string { return seal(summaryKey, jsontext.AppendText(nil, text)) }

// openSummary returns the summary of a content; false for one that the gateway did not make.
func openSummary(content string) (text string, ok bool) {
	state, ok := open(content)
	if !ok {
		return "", false
	}
	text = gjson.ParseBytes(state[summaryKey]).Str
	return text, text != ""
}

// expand replaces compactions of the gateway's by their summaries, which every vendor can read.
func (r *reader) expand() error {
	for i, raw := range r.list {
		item := gjson.ParseBytes(raw)
		if item.Get("type").Str != typeCompaction {
			continue
		}
		if summary, ok := openSummary(item.Get("encrypted_content").Str); ok {
			if !r.completed {
				r.list = slices.Clone(r.list)
			}
			r.list[i], r.completed = userMessage(summaryHead+summary), true
		}
	}
	return nil
}
