package provider

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"switchyard.dev/deploy/fakes/fault"
)

// messagesRequest holds the fields that the fake reads from a Messages request; the rest is ignored.
type messagesRequest struct {
	Model     string          `json:"model"`
	MaxTokens *int            `json:"max_tokens"`
	System    json.RawMessage `json:"system"`
	Messages  []chatMessage   `json:"messages"`
	Stream    bool            `json:"stream"`
	Tools     []struct {
		Name        string          `json:"name"`
		InputSchema json.RawMessage `json:"input_schema"`
	} `json:"tools"`
	ToolChoice struct {
		Type string `json:"type"`
		Name string `json:"name"`
	} `json:"tool_choice"`
}

type message struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"`
	Role         string          `json:"role"`
	Model        string          `json:"model"`
	Content      []any           `json:"content"`
	StopReason   *string         `json:"stop_reason"`
	StopSequence *string         `json:"stop_sequence"`
	Usage        *anthropicUsage `json:"usage,omitempty"`
}

// signaturePrefix begins the signature of thinking that this fake made.
const signaturePrefix = "Ep0fake"

type thinkingBlock struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type toolUseBlock struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// anthropicUsage keeps cached tokens out of InputTokens, as Anthropic does.
type anthropicUsage struct {
	InputTokens              int            `json:"input_tokens"`
	CacheCreationInputTokens int            `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int            `json:"cache_read_input_tokens"`
	CacheCreation            *cacheCreation `json:"cache_creation,omitempty"`
	OutputTokens             int            `json:"output_tokens"`
	ServiceTier              string         `json:"service_tier,omitempty"`
}

type cacheCreation struct {
	FiveMinutes int `json:"ephemeral_5m_input_tokens"`
	OneHour     int `json:"ephemeral_1h_input_tokens"`
}

// systemMessages begins the name of the beta that allows messages of the system between the others; Claude Code sends
// such.
const systemMessages = "mid-conversation-system"

// messages answers POST /v1/messages.
func messages(w http.ResponseWriter, r *http.Request) {
	body, req, ok := readMessages(w, r)
	if !ok {
		return
	}
	p, err := req.prompt(strings.Contains(r.Header.Get("Anthropic-Beta"), systemMessages))
	if err != nil {
		fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	answer := respond(p, scripted(fault.FromContext(r.Context())))
	base := message{
		ID: id("msg_01", 22, body, "message"), Type: "message", Role: "assistant", Model: req.Model,
		Content: []any{}, Usage: messagesUsage(answer.usage),
	}
	blocks := contentBlocks(answer, body)
	if req.Stream {
		streamMessages(startEvents(w), base, blocks, stopReason(answer.finish))
		return
	}
	base.Content, base.StopReason = blocks, new(stopReason(answer.finish))
	writeJSON(w, http.StatusOK, base)
}

// readMessages reads a request and checks its required fields. When ok is false, it has answered with the error.
func readMessages(w http.ResponseWriter, r *http.Request) (body []byte, req messagesRequest, ok bool) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		fail(w, r, http.StatusBadRequest, "The request body could not be read")
		return nil, req, false
	}
	header := w.Header()
	header.Set("Request-Id", id("req_01", 22, body, "request"))
	header.Set("Anthropic-Organization-Id", "00000000-0000-0000-0000-000000000001")
	header.Set("Anthropic-Ratelimit-Requests-Limit", "4000")
	header.Set("Anthropic-Ratelimit-Requests-Remaining", "3999")
	switch {
	case r.Header.Get("X-Api-Key") == "" && r.Header.Get("Authorization") == "":
		fail(w, r, http.StatusUnauthorized, "x-api-key header is required")
	case r.Header.Get("Anthropic-Version") == "":
		fail(w, r, http.StatusBadRequest, "anthropic-version: header is required")
	case json.Unmarshal(body, &req) != nil:
		fail(w, r, http.StatusBadRequest, "The request body is not valid JSON")
	default:
		return body, req, true
	}
	return nil, req, false
}

// prompt reads a request; system allows messages of the system.
func (req messagesRequest) prompt(system bool) (prompt, error) {
	switch {
	case req.Model == "":
		return prompt{}, errors.New("model: Field required")
	case req.MaxTokens == nil:
		return prompt{}, errors.New("max_tokens: Field required")
	case *req.MaxTokens < 1:
		return prompt{}, errors.New("max_tokens: Input should be greater than or equal to 1")
	case len(req.Messages) == 0:
		return prompt{}, errors.New("messages: at least one message is required")
	}
	instructions, err := readContent(req.System)
	if err != nil {
		return prompt{}, err
	}
	p := prompt{maxTokens: *req.MaxTokens, texts: []string{instructions.text}}
	for i, m := range req.Messages {
		c, err := readContent(m.Content)
		if err != nil {
			return prompt{}, err
		}
		p.texts = append(p.texts, c.text)
		switch m.Role {
		case "user", "assistant":
		case "system":
			if system {
				continue
			}
			fallthrough
		default:
			return prompt{}, errors.New("messages." + strconv.Itoa(i) + ".role: Input should be 'user' or 'assistant'")
		}
		if c.forged {
			return prompt{}, errors.New("messages." + strconv.Itoa(i) + ".content: Invalid `signature` in `thinking` block")
		}
		p.images += c.images
		p.results += c.results
		p.toolResult = c.toolResult
		if c.toolResult != nil {
			p.texts = append(p.texts, *c.toolResult)
		} else if m.Role == "user" {
			p.lastUser = c.text
		}
	}
	for _, t := range req.Tools {
		p.tools = append(p.tools, tool{name: t.Name, schema: t.InputSchema})
	}
	p.force, p.forceName = req.ToolChoice.Type, req.ToolChoice.Name
	return p, nil
}

func contentBlocks(answer reply, request []byte) []any {
	var blocks []any
	if answer.thinking != "" {
		blocks = append(blocks, thinkingBlock{"thinking", answer.thinking, id(signaturePrefix, 32, request, "thinking")})
	}
	if answer.text != "" || len(answer.calls) == 0 {
		blocks = append(blocks, textBlock{Type: "text", Text: answer.text})
	}
	for i, c := range answer.calls {
		blocks = append(blocks, toolUseBlock{
			Type: "tool_use", ID: id("toolu_01", 22, request, "tool"+strconv.Itoa(i)), Name: c.Name, Input: c.Arguments,
		})
	}
	return blocks
}

func messagesUsage(u *Usage) *anthropicUsage {
	if u == nil {
		return nil
	}
	return &anthropicUsage{
		InputTokens:              u.Input,
		CacheCreationInputTokens: u.CacheWrite,
		CacheReadInputTokens:     u.CacheRead,
		CacheCreation:            &cacheCreation{FiveMinutes: u.CacheWrite},
		OutputTokens:             u.Output,
		ServiceTier:              "standard",
	}
}

func stopReason(finish string) string {
	switch finish {
	case "length":
		return "max_tokens"
	case "tool_calls":
		return "tool_use"
	case "content_filter":
		return "refusal"
	default:
		return "end_turn"
	}
}
