package provider

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/deploy/fakes/fault"
)

// responsesRequest holds the fields that the fake reads from a request of the Responses API; the rest is ignored.
type responsesRequest struct {
	Model        string          `json:"model"`
	Input        json.RawMessage `json:"input"`
	Instructions string          `json:"instructions"`
	Stream       bool            `json:"stream"`
	MaxTokens    int             `json:"max_output_tokens"`
	Tools        []struct {
		Type       string          `json:"type"`
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
		Tools      []struct {
			Name string `json:"name"`
		} `json:"tools"` // of a namespace
	} `json:"tools"`
	ToolChoice json.RawMessage `json:"tool_choice"`
	Previous   string          `json:"previous_response_id"`
	Include    []string        `json:"include"`

	seal string // of the caller's account
}

// responseInput is an item of a request's input.
type responseInput struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	CallID  string          `json:"call_id"`
	Output  json.RawMessage `json:"output"`
	// Encrypted is the content of reasoning, which only the vendor that sealed it can read.
	Encrypted string `json:"encrypted_content"`
}

// response is a whole answer, and what the first and the last event of a stream hold.
type response struct {
	ID                string          `json:"id"`
	Object            string          `json:"object"`
	CreatedAt         int64           `json:"created_at"`
	Status            string          `json:"status"`
	Error             *struct{}       `json:"error"`
	IncompleteDetails *incomplete     `json:"incomplete_details"`
	Instructions      *string         `json:"instructions"`
	Metadata          struct{}        `json:"metadata"`
	Model             string          `json:"model"`
	Output            []any           `json:"output"`
	ParallelToolCalls bool            `json:"parallel_tool_calls"`
	Temperature       float64         `json:"temperature"`
	TopP              float64         `json:"top_p"`
	ToolChoice        string          `json:"tool_choice"`
	Tools             []struct{}      `json:"tools"`
	Store             bool            `json:"store"`
	Usage             *responsesUsage `json:"usage"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

type responsesUsage struct {
	InputTokens   int                    `json:"input_tokens"`
	InputDetails  responsesInputDetails  `json:"input_tokens_details"`
	OutputTokens  int                    `json:"output_tokens"`
	OutputDetails responsesOutputDetails `json:"output_tokens_details"`
	TotalTokens   int                    `json:"total_tokens"`
}

type responsesInputDetails struct {
	CachedTokens     int `json:"cached_tokens"`
	CacheWriteTokens int `json:"cache_write_tokens"`
}

type responsesOutputDetails struct {
	ReasoningTokens int `json:"reasoning_tokens"`
}

// The items of an answer.
type (
	messageItem struct {
		Type    string     `json:"type"`
		ID      string     `json:"id"`
		Status  string     `json:"status"`
		Role    string     `json:"role"`
		Content []textPart `json:"content"`
	}
	textPart struct {
		Type        string     `json:"type"`
		Text        string     `json:"text"`
		Annotations []struct{} `json:"annotations"`
		Logprobs    []struct{} `json:"logprobs"`
	}
	reasoningItem struct {
		Type      string        `json:"type"`
		ID        string        `json:"id"`
		Summary   []summaryPart `json:"summary"`
		Encrypted string        `json:"encrypted_content,omitempty"`
	}
	summaryPart struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	functionItem struct {
		Type      string `json:"type"`
		ID        string `json:"id"`
		Status    string `json:"status"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Namespace string `json:"namespace,omitempty"`
		Arguments string `json:"arguments"`
	}
	customItem struct {
		Type   string `json:"type"`
		ID     string `json:"id"`
		Status string `json:"status"`
		CallID string `json:"call_id"`
		Name   string `json:"name"`
		Input  string `json:"input"`
	}
)

// sealOf returns what begins the reasoning that is sealed for the caller: no other account can read it.
func sealOf(r *http.Request) string {
	return id("gAAAAfake", 16, []byte(r.Header.Get("Authorization")+r.Header.Get("Api-Key")), "seal")
}

// respondTo answers POST /v1/responses. It stores nothing.
func respondTo(w http.ResponseWriter, r *http.Request, body []byte) {
	req, p, ok := asked(w, r, body)
	if !ok {
		return
	}
	answer := respond(p, scripted(fault.FromContext(r.Context())))
	base := response{
		ID: id("resp_", 40, body, "response"), Object: "response", CreatedAt: created, Status: "in_progress", Model: req.Model,
		Output: []any{}, ParallelToolCalls: true, Temperature: 1, TopP: 1, ToolChoice: "auto", Tools: []struct{}{},
	}
	final := base.ended(answer)
	final.Output = req.items(answer, body)
	if req.Stream {
		streamResponse(startEvents(w), base, final)
		return
	}
	writeJSON(w, http.StatusOK, final)
}

// ended returns the response with the state and the usage that it ends with.
func (r response) ended(answer reply) response {
	r.Status = "completed"
	switch answer.finish {
	case "length":
		r.Status, r.IncompleteDetails = "incomplete", &incomplete{"max_output_tokens"}
	case "content_filter":
		r.Status, r.IncompleteDetails = "incomplete", &incomplete{"content_filter"}
	}
	if u := answer.usage; u != nil {
		in := u.Input + u.CacheRead + u.CacheWrite
		r.Usage = &responsesUsage{
			InputTokens: in, InputDetails: responsesInputDetails{u.CacheRead, u.CacheWrite},
			OutputTokens: u.Output, OutputDetails: responsesOutputDetails{u.Reasoning}, TotalTokens: in + u.Output,
		}
	}
	return r
}

// items returns the items of an answer. The call of a custom tool holds the text of the argument "input", and a call of
// namespace__tool names the two by themselves where the request has the tool in that namespace.
func (req responsesRequest) items(answer reply, body []byte) []any {
	items := []any{}
	if answer.thinking != "" {
		reasoning := reasoningItem{Type: "reasoning", ID: id("rs_", 40, body, "reasoning"), Summary: []summaryPart{{"summary_text", answer.thinking}}}
		if slices.Contains(req.Include, "reasoning.encrypted_content") {
			reasoning.Encrypted = id(req.seal, 32, body, "reasoning")
		}
		items = append(items, reasoning)
	}
	if answer.text != "" || len(answer.calls) == 0 {
		items = append(items, messageItem{
			Type: "message", ID: id("msg_", 40, body, "message"), Status: "completed", Role: "assistant", Content: []textPart{partOf(answer.text)},
		})
	}
	for i, c := range answer.calls {
		kind := "tool" + strconv.Itoa(i)
		callID := id("call_", 24, body, kind)
		if req.isCustom(c.Name) {
			items = append(items, customItem{"custom_tool_call", id("ctc_", 40, body, kind), "completed", callID, c.Name, inputOf(c.Arguments)})
			continue
		}
		namespace, name := req.namespaceOf(c.Name)
		items = append(items, functionItem{"function_call", id("fc_", 40, body, kind), "completed", callID, name, namespace, string(c.Arguments)})
	}
	return items
}

func partOf(text string) textPart {
	return textPart{Type: "output_text", Text: text, Annotations: []struct{}{}, Logprobs: []struct{}{}}
}

func (req responsesRequest) isCustom(name string) bool {
	for _, t := range req.Tools {
		if t.Name == name {
			return t.Type == "custom"
		}
	}
	return false
}

// namespaceOf returns the namespace and the name of a tool of the request by namespace__tool; the namespace is empty for a
// tool of none.
func (req responsesRequest) namespaceOf(name string) (namespace, tool string) {
	for _, t := range req.Tools {
		rest, within := strings.CutPrefix(name, t.Name+"__")
		if t.Type != "namespace" || !within {
			continue
		}
		for _, inner := range t.Tools {
			if inner.Name == rest {
				return t.Name, rest
			}
		}
	}
	return "", name
}

func inputOf(arguments json.RawMessage) string {
	var custom struct{ Input *string }
	if json.Unmarshal(arguments, &custom) == nil && custom.Input != nil {
		return *custom.Input
	}
	return string(arguments)
}

func (req responsesRequest) prompt() (prompt, error) {
	switch {
	case req.Model == "":
		return prompt{}, errors.New("missing required parameter: 'model'")
	case req.Previous != "":
		return prompt{}, errors.New("previous response with id '" + req.Previous + "' not found")
	}
	p := prompt{maxTokens: req.MaxTokens, texts: []string{req.Instructions}}
	if err := p.addInput(req.Input, req.seal); err != nil {
		return prompt{}, err
	}
	for _, t := range req.Tools {
		if t.Type == "function" || t.Type == "custom" {
			p.tools = append(p.tools, tool{name: t.Name, schema: t.Parameters})
		}
	}
	p.force, p.forceName = readToolChoice(req.ToolChoice)
	return p, nil
}

// addInput reads a text or a list of items. As at the vendor, a result must have its call before it, and reasoning its
// seal.
func (p *prompt) addInput(raw json.RawMessage, seal string) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		p.texts, p.lastUser = append(p.texts, text), text
		return nil
	}
	var items []responseInput
	if err := json.Unmarshal(raw, &items); err != nil || len(items) == 0 {
		return errors.New("invalid type for 'input': expected a string or an array of objects")
	}
	calls := map[string]bool{}
	for _, item := range items {
		switch item.Type {
		case "reasoning":
			switch {
			case item.Encrypted == "":
				return errors.New("item '" + item.ID + "' not found. Items are not persisted when `store` is set to false")
			case !strings.HasPrefix(item.Encrypted, seal):
				return errors.New("the encrypted content of the reasoning could not be verified")
			}
		case "compaction":
			if !strings.HasPrefix(item.Encrypted, seal) {
				return errors.New("the encrypted content of the compaction could not be verified")
			}
		case "function_call", "custom_tool_call":
			calls[item.CallID] = true
		case "function_call_output", "custom_tool_call_output":
			if !calls[item.CallID] {
				return errors.New("no tool call found for function call output with call_id " + item.CallID)
			}
			c, err := readContent(item.Output)
			if err != nil {
				return err
			}
			p.texts = append(p.texts, c.text)
			p.toolResult = joinResult(p.toolResult, c.text)
			p.results++
		case "", "message":
			if err := p.addMessage(item); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *prompt) addMessage(item responseInput) error {
	c, err := readContent(item.Content)
	if err != nil {
		return err
	}
	p.texts = append(p.texts, c.text)
	p.images += c.images
	switch item.Role {
	case "user":
		p.lastUser, p.toolResult = c.text, nil
	case "assistant", "system", "developer":
		p.toolResult = nil
	default:
		return errors.New("invalid value: '" + item.Role + "'. Supported values are: 'assistant', 'system', 'developer', and 'user'")
	}
	return nil
}
