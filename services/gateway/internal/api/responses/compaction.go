package responses

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/serving/inference"
	vendor "switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

// typeCompaction is the type of the item that stands for a shortened conversation.
const typeCompaction = "compaction"

// Compaction is one request to shorten a conversation. A vendor that has a compaction of its own makes it; elsewhere the
// model writes a summary, which any model can read later. It implements dialect.Writer. Source: OpenAI API reference,
// "Compact a response".
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
	chat.Writer, chat.Hints = compaction, nil
	chat.Chat.Native.Dialect = vendor.CompactionName
	chat.Chat.Native.Body, err = whole(body, items)
	return chat, compaction, err
}

// whole returns a request with all items of its conversation, for a vendor's own compaction.
func whole(body []byte, items []json.RawMessage) ([]byte, error) {
	out, err := sjson.DeleteBytes(bytes.Clone(body), "previous_response_id")
	if err == nil {
		out, err = sjson.DeleteBytes(out, dialect.Extension)
	}
	if err == nil {
		out, err = sjson.SetRawBytes(out, "input", joined(items))
	}
	if err != nil {
		return nil, apierr.Internal(err)
	}
	return out, nil
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
			out = append(out, stoodFor(item.Get("encrypted_content").Str)...)
		}
	}
	return out
}

// stoodFor returns what a compaction stands for, as messages.
func stoodFor(content string) []json.RawMessage {
	if summary, ok := openSummary(content); ok {
		return []json.RawMessage{userMessage(summaryHead + summary)}
	}
	items, _, _ := behind(content)
	items = slices.DeleteFunc(items, func(raw json.RawMessage) bool { return gjson.GetBytes(raw, "type").Str == typeCompaction })
	return plain(items)
}

// behind returns the items that a vendor's compaction stands for, their bytes, and the provider that made it; none where
// they don't travel with it.
func behind(content string) (items []json.RawMessage, size int, provider string) {
	sealed, ok := vendor.OpenSealed(content)
	if !ok {
		return nil, 0, ""
	}
	list, ok := sealed.Behind()
	if !ok || jsoncheck.TooDeep(list) {
		return nil, 0, ""
	}
	return elements(gjson.ParseBytes(list)), len(list), sealed.Provider
}

// elements returns the items of a list; not nil.
func elements(list gjson.Result) []json.RawMessage {
	items := []json.RawMessage{}
	list.ForEach(func(_, item gjson.Result) bool {
		items = append(items, json.RawMessage(item.Raw))
		return true
	})
	return items
}

// bytesPerToken estimates the tokens of items, with what their JSON adds to the text.
const bytesPerToken = 6

// compaction reads a compaction that a vendor made. The items that it stands for take its place in the chat; where they
// don't travel with it, only that vendor can go on.
func (r *reader) compaction(path, content string) error {
	items, size, provider := behind(content)
	if items == nil {
		r.chat.Open(path + ".type")
		return nil
	}
	if c := &r.chat.Compacted; c.Provider == "" || c.Provider == provider {
		c.Provider, c.Tokens = provider, c.Tokens+size/bytesPerToken
	}
	if r.behind += size; r.behind > 2*vendor.MaxBehind {
		return apierr.Invalid(path+".encrypted_content", "the compactions of a request stand for at most 16 MiB")
	}
	for _, raw := range items {
		if gjson.GetBytes(raw, "type").Str == typeCompaction { // None is left there where its items were known.
			r.chat.Open(path + ".type")
			continue
		}
		if err := r.item(path, raw); err != nil {
			return err
		}
	}
	return nil
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
	if output := gjson.GetBytes(completion.Native, "output"); output.IsArray() {
		return c.encode(elements(output), completion)
	}
	if completion.Text == "" {
		return nil, apierr.Unavailable("the model wrote no summary; try again", nil)
	}
	output := answerItems{}
	for _, message := range c.kept {
		output.list = append(output.list, shown(withID(message)))
	}
	output.add(compactionItem{newID("cmp"), typeCompaction, sealSummary(completion.Text)})
	if output.err != nil {
		return nil, output.err
	}
	return c.encode(output.list, completion)
}

func (c *Compaction) encode(output []json.RawMessage, completion *inference.Completion) ([]byte, error) {
	return jsontext.Marshal(compacted{c.ID, "response.compaction", c.created.Unix(), output, toUsage(completion.Report)})
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
