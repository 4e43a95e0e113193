package gemini

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

// piece is the content of a whole answer, or of one chunk of a stream.
type piece struct {
	text, reasoning string
	other           string // code that the vendor runs
	calls           []provider.ToolCall
	images          []string
	finish          string // the vendor's finish reason
}

// reader reads the pieces of an answer: it numbers the calls and sets the IDs of calls without one.
type reader struct {
	calls      int
	hasContent bool // text, an image or a call was read
	// citations are the sources so far; each list from the vendor replaces the previous one. bytes and characters are
	// the length of the text so far.
	citations         []provider.Citation
	bytes, characters int
	id                string
	usage             *provider.Usage
}

// read reads one answer or chunk. Results of code that the vendor ran have no form in a chat.
func (r *reader) read(root gjson.Result) (piece, error) {
	var p piece
	var text, reasoning, other wire.Joined
	if u := usageOf(root.Get("usageMetadata")); u != nil {
		r.usage = u // The last one is that of the whole.
	}
	candidate := root.Get("candidates.0")
	if !candidate.Exists() {
		return p, blocked(root.Get("promptFeedback"))
	}
	p.finish = wire.Text(candidate.Get("finishReason"))
	candidate.Get("content.parts").ForEach(func(_, part gjson.Result) bool {
		if call := part.Get("functionCall"); call.IsObject() {
			if len(p.calls) > provider.MaxToolCalls { // One more shows that there are too many.
				return false
			}
			p.calls = append(p.calls, r.call(root, call, wire.Text(part.Get("thoughtSignature"))))
			return true
		}
		other.Add(wire.Text(part.Get("executableCode.code")))
		written := wire.Text(part.Get("text"))
		if part.Get("thought").Bool() {
			reasoning.Add(written)
			return true
		}
		text.Add(written)
		if uri := imageURI(part.Get("inlineData")); uri != "" {
			p.images = append(p.images, uri)
		}
		return true
	})
	r.cite(candidate)
	p.text, p.reasoning, p.other = text.String(), reasoning.String(), other.String()
	r.bytes, r.characters = r.bytes+len(p.text), r.characters+utf8.RuneCountInString(p.text)
	r.hasContent = r.hasContent || p.text != "" || len(p.images) > 0 || len(p.calls) > 0
	return p, failure(p.finish, candidate, r.hasContent)
}

// cite reads the sources of an answer or a chunk.
func (r *reader) cite(candidate gjson.Result) {
	metadata, repeated := candidate.Get("groundingMetadata"), candidate.Get("citationMetadata")
	if !metadata.Exists() && !repeated.Exists() {
		return
	}
	if found := append(grounding(metadata), recitations(repeated)...); len(found) > 0 {
		r.citations = found
	}
}

// call reads a call. The vendor's older models set no ID: then it is made from the answer's own ID, which no other turn
// of the conversation has.
func (r *reader) call(root, call gjson.Result, signature string) provider.ToolCall {
	out := provider.ToolCall{
		Index: r.calls, ID: wire.Text(call.Get("id")), Name: wire.Text(call.Get("name")),
		Arguments: noArguments, Extra: stateOf(signature),
	}
	if args := call.Get("args"); args.IsObject() {
		out.Arguments = compact(args.Raw)
	}
	if out.ID == "" {
		if r.id == "" {
			r.id = wire.Text(root.Get("responseId"))
		}
		if r.id == "" {
			r.id = rand.Text()
		}
		out.ID = "call_" + r.id + "_" + strconv.Itoa(r.calls)
	}
	r.calls++
	return out
}

// compact removes whitespace: whole answers are indented.
func compact(object string) string {
	var out bytes.Buffer
	if json.Compact(&out, []byte(object)) != nil {
		return noArguments // It was read from valid JSON; that can't fail.
	}
	return out.String()
}

// blocked returns the error of an answer without a candidate: with HTTP 200 it means that the prompt was refused.
func blocked(feedback gjson.Result) error {
	reason := wire.Text(feedback.Get("blockReason"))
	if reason == "" {
		return nil
	}
	text := wire.Text(feedback.Get("blockReasonMessage"))
	if text == "" {
		text = "the provider blocked the prompt: " + reason
	}
	return &provider.Error{Class: apierr.ClassContentPolicy, Status: http.StatusOK, Code: wire.Shorten(reason), Text: wire.Shorten(text)}
}

// failure returns the error for finish reasons that are failures: the model's own failures, and "OTHER" if the answer
// is empty.
func failure(finish string, candidate gjson.Result, hasContent bool) error {
	e := &provider.Error{Class: apierr.ClassServerError, Status: http.StatusOK, Code: wire.Shorten(finish)}
	switch finish {
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE":
	case "MISSING_THOUGHT_SIGNATURE":
		e.Class = apierr.ClassPolicy
	case "OTHER":
		if hasContent {
			return nil
		}
	default:
		return nil
	}
	if e.Text = wire.Shorten(wire.Text(candidate.Get("finishMessage"))); e.Text == "" {
		e.Text = "the model ended its answer with " + e.Code
	}
	return e
}

// finishReason maps the vendor's finish reasons. A blocked answer is cut off.
func finishReason(finish string) provider.FinishReason {
	switch finish {
	case "":
		return ""
	case "MAX_TOKENS", "CONTINUATION":
		return provider.FinishLength
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER":
		return provider.FinishContentFilter
	}
	return provider.FinishStop
}

func decode(root gjson.Result) (*provider.Answer, error) {
	var r reader
	p, err := r.read(root)
	if err != nil {
		return nil, err
	}
	if !root.Get("candidates.0").Exists() {
		return nil, wire.Malformed("the answer holds no candidate", nil)
	}
	if err := provider.CheckCalls(p.calls); err != nil {
		return nil, err
	}
	return &provider.Answer{
		Text: p.text, Reasoning: p.reasoning, Other: p.other, ToolCalls: p.calls,
		Citations: r.sources(p.text), Images: p.images, FinishReason: finishReason(p.finish).WithCalls(r.calls > 0),
		Usage: r.usage, Model: wire.Text(root.Get("modelVersion")),
	}, nil
}
