package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"switchyard.dev/deploy/fakes/fault"
)

// imageTokens is the token count of one picture in a prompt.
const imageTokens = 85

// Answer is the answer field of a scripted action. It replaces the assistant's own answer; absent fields keep the
// assistant's values.
type Answer struct {
	Text *string `json:"text,omitempty"`
	// Thinking comes before the text. Anthropic's face signs it and the Responses API seals it; both refuse a request with
	// thinking that isn't theirs.
	Thinking  string     `json:"thinking,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// FinishReason is one of OpenAI's values: stop, length, tool_calls or
	// content_filter. The other faces translate it.
	FinishReason string `json:"finish_reason,omitempty"`
	Usage        *Usage `json:"usage,omitempty"`
	// NoUsage omits the token counts, as some compatible servers do.
	NoUsage bool `json:"no_usage,omitempty"`
	// Then are the answers to requests that hold results of tools: the first to one result, the second to two, and the
	// last to all further ones. So a whole conversation of an agent is one rule, whichever vendor serves its turns.
	Then []Answer `json:"then,omitempty"`
}

// after returns the answer to a request that holds so many results of tools.
func (a Answer) after(results int) Answer {
	if results == 0 || len(a.Then) == 0 {
		return a
	}
	return a.Then[min(results, len(a.Then))-1]
}

// ToolCall is one call that the assistant requests.
type ToolCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Usage counts tokens in disjoint buckets, except Reasoning, which is a part of Output.
type Usage struct {
	Input      int `json:"input"`
	CacheRead  int `json:"cache_read"`
	CacheWrite int `json:"cache_write"`
	Output     int `json:"output"`
	Reasoning  int `json:"reasoning"`
}

// Tokens is the fake's tokenizer: a quarter of the bytes, at least one for a text that is not empty.
func Tokens(text string) int {
	if text == "" {
		return 0
	}
	return max(len(text)/4, 1)
}

// tool is an offered tool, with the JSON Schema of its arguments.
type tool struct {
	name   string
	schema json.RawMessage
}

// prompt is what the faces read from a request.
type prompt struct {
	texts      []string
	images     int
	lastUser   string
	toolResult *string // set when the newest message is a tool's result
	results    int     // results of tools in the whole request
	tools      []tool
	force      string // "", "none", "any", or with forceName set a tool's name
	forceName  string
	maxTokens  int // 0 = no limit
}

// reply is what the faces render.
type reply struct {
	thinking string
	text     string
	calls    []ToolCall
	finish   string
	usage    *Usage
}

// respond computes the assistant's reply: it is a pure function of the prompt and the script.
func respond(p prompt, script Answer) reply {
	script = script.after(p.results)
	r := reply{finish: "stop", thinking: script.Thinking}
	switch {
	case script.Text != nil || len(script.ToolCalls) > 0:
		r.calls = withArguments(script.ToolCalls)
		if script.Text != nil {
			r.text = *script.Text
		}
	case p.toolResult != nil:
		r.text = "Tool said: " + *p.toolResult
	case p.wantsTool():
		picked := p.pick()
		r.calls = []ToolCall{{Name: picked.name, Arguments: fillSchema(picked.schema, p.lastUser)}}
	default:
		r.text = "You said: " + p.lastUser
	}
	if len(r.calls) > 0 {
		r.finish = "tool_calls"
	}
	if p.maxTokens > 0 && Tokens(r.text) > p.maxTokens {
		r.text, r.finish = cutText(r.text, p.maxTokens*4), "length"
	}
	if script.FinishReason != "" {
		r.finish = script.FinishReason
	}
	r.usage = &Usage{Input: p.tokens(), Output: r.tokens() + Tokens(r.thinking), Reasoning: Tokens(r.thinking)}
	if script.Usage != nil {
		r.usage = script.Usage
	}
	if script.NoUsage {
		r.usage = nil
	}
	return r
}

// withArguments gives calls without arguments the empty object.
func withArguments(calls []ToolCall) []ToolCall {
	calls = slices.Clone(calls)
	for i := range calls {
		if len(calls[i].Arguments) == 0 {
			calls[i].Arguments = json.RawMessage("{}")
		}
	}
	return calls
}

func (p prompt) wantsTool() bool {
	if len(p.tools) == 0 || p.force == "none" {
		return false
	}
	return p.force == "any" || p.forceName != "" || strings.Contains(strings.ToLower(p.lastUser), "use tool")
}

func (p prompt) pick() tool {
	for _, t := range p.tools {
		if t.name == p.forceName {
			return t
		}
	}
	return p.tools[0]
}

func (p prompt) tokens() int {
	return Tokens(strings.Join(p.texts, "")) + p.images*imageTokens
}

func (r reply) tokens() int {
	var all strings.Builder
	all.WriteString(r.text)
	for _, c := range r.calls {
		all.WriteString(c.Name)
		all.Write(c.Arguments)
	}
	return Tokens(all.String())
}

// cutText shortens s to at most n bytes without splitting a character.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// words splits a text into the pieces of a stream; joined, they are the text.
func words(text string) []string {
	var out []string
	for text != "" {
		end := len(text)
		// A piece is a word with the space before it, as tokenizers cut.
		if i := strings.IndexByte(text[1:], ' '); i >= 0 {
			end = i + 1
		}
		out = append(out, text[:end])
		text = text[end:]
	}
	return out
}

// scripted returns the Answer of a call's action.
func scripted(action fault.Action) Answer {
	answer, err := parseAnswer(action)
	if err != nil {
		// checkAnswer has refused such a script before.
		return Answer{}
	}
	return answer
}

func checkAnswer(action fault.Action) error {
	_, err := parseAnswer(action)
	return err
}

func parseAnswer(action fault.Action) (Answer, error) {
	var answer Answer
	if len(action.Answer) == 0 {
		return answer, nil
	}
	dec := json.NewDecoder(bytes.NewReader(action.Answer))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&answer); err != nil {
		return Answer{}, fmt.Errorf("answer: %w", err)
	}
	for _, a := range answer.Then {
		if len(a.Then) > 0 {
			return Answer{}, errors.New("answer: an answer in then has a then of its own")
		}
	}
	for _, a := range append(slices.Clone(answer.Then), answer) {
		switch a.FinishReason {
		case "", "stop", "length", "tool_calls", "content_filter":
		default:
			return Answer{}, fmt.Errorf("answer: finish_reason %q is unknown", a.FinishReason)
		}
	}
	return answer, nil
}
