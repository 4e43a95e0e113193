package provider

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/deploy/fakes/fault"
)

func speaksBedrock(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/model/") }

// bedrockOperations are the operations of a model by name.
var bedrockOperations = map[string]func(w http.ResponseWriter, r *http.Request, body []byte){
	"converse":                    converse,
	"converse-stream":             converse,
	"invoke":                      invoke,
	"invoke-with-response-stream": invoke,
	"count-tokens":                countBedrock,
}

// bedrock answers POST /model/{model}/{operation}.
func bedrock(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	w.Header().Set("X-Amzn-Requestid", id("", 32, body, "request"))
	if reason := bedrockCredential(r, body); reason != "" {
		w.Header().Set(errorType, "MissingAuthenticationTokenException")
		fail(w, r, http.StatusForbidden, reason)
		return
	}
	answer, known := bedrockOperations[r.PathValue("operation")]
	switch {
	case !known:
		fail(w, r, http.StatusNotFound, "")
	case err != nil || !json.Valid(body):
		fail(w, r, http.StatusBadRequest, "Malformed input request, please reformat your input and try again.")
	default:
		answer(w, r, body)
	}
}

// bedrockCredential returns why a call has no credential that the vendor takes; empty if it has: an API key (Bearer) or a
// signature (AWS4-HMAC-SHA256), which is not verified here.
func bedrockCredential(r *http.Request, _ []byte) string {
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if scheme != "Bearer" && scheme != "AWS4-HMAC-SHA256" || value == "" {
		return "Missing Authentication Token"
	}
	return ""
}

// converseRequest holds the fields that the fake reads from a Converse request; the rest is ignored.
type converseRequest struct {
	System   []converseBlock `json:"system"`
	Messages []struct {
		Role    string          `json:"role"`
		Content []converseBlock `json:"content"`
	} `json:"messages"`
	Inference struct {
		MaxTokens *int `json:"maxTokens"`
	} `json:"inferenceConfig"`
	Tools *struct {
		Tools []struct {
			Spec struct {
				Name  string `json:"name"`
				Input struct {
					JSON json.RawMessage `json:"json"`
				} `json:"inputSchema"`
			} `json:"toolSpec"`
		} `json:"tools"`
		Choice struct {
			Any  *struct{} `json:"any"`
			Tool *struct {
				Name string `json:"name"`
			} `json:"tool"`
		} `json:"toolChoice"`
	} `json:"toolConfig"`
}

// converseBlock is a union: each has one of its fields.
type converseBlock struct {
	Text       *string            `json:"text,omitempty"`
	Image      *converseMedia     `json:"image,omitempty"`
	Document   *converseMedia     `json:"document,omitempty"`
	ToolUse    *converseUse       `json:"toolUse,omitempty"`
	ToolResult *converseResult    `json:"toolResult,omitempty"`
	Reasoning  *converseReasoning `json:"reasoningContent,omitempty"`
	CachePoint *struct {
		Type string `json:"type"`
	} `json:"cachePoint,omitempty"`
}

type converseMedia struct {
	Format string `json:"format"`
	Name   string `json:"name,omitempty"`
	Source struct {
		Bytes []byte `json:"bytes"`
	} `json:"source"`
}

type converseUse struct {
	ID    string          `json:"toolUseId"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input,omitempty"`
}

type converseResult struct {
	ID      string          `json:"toolUseId"`
	Content []converseBlock `json:"content"`
}

type converseReasoning struct {
	Text *converseThought `json:"reasoningText,omitempty"`
}

type converseThought struct {
	Text      string `json:"text"`
	Signature string `json:"signature"`
}

var converseImages = []string{"png", "jpeg", "gif", "webp"}

// readConverse reads blocks, of which each must have one field that the fake knows.
func readConverse(blocks []converseBlock) (c content, err error) {
	var texts []string
	for _, b := range blocks {
		switch {
		case b.Text != nil && *b.Text == "":
			return c, errors.New("the text field of a content block is blank")
		case b.Text != nil:
			texts = append(texts, *b.Text)
		case b.Image != nil && len(b.Image.Source.Bytes) > 0 && slices.Contains(converseImages, b.Image.Format):
			c.images++
		case b.Document != nil && b.Document.Name != "" && len(b.Document.Source.Bytes) > 0:
		case b.ToolUse != nil && b.ToolUse.ID != "" && len(b.ToolUse.ID) <= 64:
		case b.ToolResult != nil && b.ToolResult.ID != "":
			inner, err := readConverse(b.ToolResult.Content)
			if err != nil {
				return c, err
			}
			c.toolResult = joinResult(c.toolResult, inner.text)
			c.results++
			c.images += inner.images
		case b.Reasoning != nil:
			c.forged = c.forged || b.Reasoning.Text != nil && !strings.HasPrefix(b.Reasoning.Text.Signature, signaturePrefix)
		case b.CachePoint != nil && b.CachePoint.Type == "default":
		default:
			return c, errors.New("a content block has no member that is known and complete")
		}
	}
	c.text = strings.Join(texts, "")
	return c, nil
}

// prompt reads a request, with the vendor's rules for turns.
func (req converseRequest) prompt() (prompt, error) {
	if len(req.Messages) == 0 {
		return prompt{}, errors.New("the messages field is empty")
	}
	system, err := readConverse(req.System)
	if err != nil {
		return prompt{}, err
	}
	p := prompt{texts: []string{system.text}}
	if most := req.Inference.MaxTokens; most != nil {
		if p.maxTokens = *most; p.maxTokens < 1 {
			return prompt{}, errors.New("1 validation error detected: Value at 'inferenceConfig.maxTokens' failed to satisfy constraint")
		}
	}
	for i, m := range req.Messages {
		if m.Role != []string{"user", "assistant"}[i%2] {
			return prompt{}, errors.New("a conversation must start with a user message and alternate between user and assistant: messages." + strconv.Itoa(i))
		}
		c, err := readConverse(m.Content)
		if err == nil && c.forged {
			err = errors.New("messages." + strconv.Itoa(i) + ".content: Invalid `signature` in `thinking` block")
		}
		if err == nil && req.Tools == nil && hasTools(m.Content) {
			err = errors.New("the toolConfig field must be defined when using toolUse and toolResult content blocks")
		}
		if err != nil {
			return prompt{}, err
		}
		p.texts = append(p.texts, c.text)
		p.images += c.images
		p.results += c.results
		p.toolResult = c.toolResult
		if c.toolResult != nil {
			p.texts = append(p.texts, *c.toolResult)
		} else if m.Role == "user" {
			p.lastUser = c.text
		}
	}
	return req.withTools(p), nil
}

func hasTools(blocks []converseBlock) bool {
	for _, b := range blocks {
		if b.ToolUse != nil || b.ToolResult != nil {
			return true
		}
	}
	return false
}

func (req converseRequest) withTools(p prompt) prompt {
	if req.Tools == nil {
		return p
	}
	for _, t := range req.Tools.Tools {
		p.tools = append(p.tools, tool{name: t.Spec.Name, schema: t.Spec.Input.JSON})
	}
	switch choice := req.Tools.Choice; {
	case choice.Any != nil:
		p.force = "any"
	case choice.Tool != nil:
		p.force, p.forceName = "tool", choice.Tool.Name
	}
	return p
}

type converseAnswer struct {
	Output     converseOutput `json:"output"`
	StopReason string         `json:"stopReason"`
	Usage      *converseUsage `json:"usage,omitempty"`
	Metrics    latency        `json:"metrics"`
}

type converseOutput struct {
	Message converseMessage `json:"message"`
}

type converseMessage struct {
	Role    string          `json:"role"`
	Content []converseBlock `json:"content"`
}

type latency struct {
	Milliseconds int `json:"latencyMs"`
}

// converseUsage keeps cached tokens out of Input, as the vendor does.
type converseUsage struct {
	Input      int `json:"inputTokens"`
	Output     int `json:"outputTokens"`
	Total      int `json:"totalTokens"`
	CacheRead  int `json:"cacheReadInputTokens"`
	CacheWrite int `json:"cacheWriteInputTokens"`
}

func usageOfConverse(u *Usage) *converseUsage {
	if u == nil {
		return nil
	}
	return &converseUsage{u.Input, u.Output, u.Input + u.CacheRead + u.CacheWrite + u.Output, u.CacheRead, u.CacheWrite}
}

// converse answers with a whole answer or, under its other name, a stream.
func converse(w http.ResponseWriter, r *http.Request, body []byte) {
	var req converseRequest
	if err := json.Unmarshal(body, &req); err != nil {
		fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	p, err := req.prompt()
	if err != nil {
		fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	answer := respond(p, scripted(fault.FromContext(r.Context())))
	blocks, stop := converseBlocks(answer, body), converseStop(answer.finish)
	if r.PathValue("operation") == "converse" {
		writeJSON(w, http.StatusOK, converseAnswer{
			converseOutput{converseMessage{"assistant", blocks}}, stop, usageOfConverse(answer.usage), latency{1},
		})
		return
	}
	out := startFrames(w)
	for _, e := range converseEvents(blocks, stop, usageOfConverse(answer.usage)) {
		if !out.send(eventFrame(e.name, string(encode(e.data)))) {
			return
		}
	}
}

func converseBlocks(answer reply, request []byte) []converseBlock {
	blocks := []converseBlock{}
	if answer.thinking != "" {
		thought := &converseThought{answer.thinking, id(signaturePrefix, 32, request, "thinking")}
		blocks = append(blocks, converseBlock{Reasoning: &converseReasoning{thought}})
	}
	if answer.text != "" || len(answer.calls) == 0 {
		blocks = append(blocks, converseBlock{Text: &answer.text})
	}
	for i, c := range answer.calls {
		blocks = append(blocks, converseBlock{ToolUse: &converseUse{id("tooluse_", 22, request, "tool"+strconv.Itoa(i)), c.Name, c.Arguments}})
	}
	return blocks
}

func converseStop(finish string) string {
	switch finish {
	case "length":
		return "max_tokens"
	case "tool_calls":
		return "tool_use"
	case "content_filter":
		return "guardrail_intervened"
	default:
		return "end_turn"
	}
}
