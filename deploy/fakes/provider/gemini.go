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

// geminiRequest holds the fields that the fake reads from a generateContent request; the rest is ignored.
type geminiRequest struct {
	System   geminiContent   `json:"systemInstruction"`
	Contents []geminiContent `json:"contents"`
	Tools    []struct {
		Declarations []struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	ToolConfig struct {
		Calling struct {
			Mode    string   `json:"mode"`
			Allowed []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	Generation struct {
		MaxTokens  int      `json:"maxOutputTokens"`
		Modalities []string `json:"responseModalities"`
	} `json:"generationConfig"`
}

type geminiContent struct {
	Role  string       `json:"role,omitempty"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text             string            `json:"text,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	InlineData       *geminiBlob       `json:"inlineData,omitempty"`
	FunctionCall     *geminiCall       `json:"functionCall,omitempty"`
	FunctionResponse *geminiCallResult `json:"functionResponse,omitempty"`
	ThoughtSignature string            `json:"thoughtSignature,omitempty"`
}

type geminiBlob struct {
	MimeType string `json:"mimeType"`
	Data     string `json:"data"`
}

type geminiCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type geminiCallResult struct {
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"`
}

// geminiAnswer is both a whole answer and one chunk of a stream.
type geminiAnswer struct {
	Candidates    []geminiCandidate `json:"candidates"`
	UsageMetadata *geminiUsage      `json:"usageMetadata,omitempty"`
	ModelVersion  string            `json:"modelVersion"`
	ResponseID    string            `json:"responseId"`
}

type geminiCandidate struct {
	Content      geminiContent `json:"content"`
	FinishReason string        `json:"finishReason,omitempty"`
	Index        int           `json:"index"`
}

// geminiUsage counts cached tokens as part of the prompt, and thoughts apart from the candidates, as Google does.
type geminiUsage struct {
	Prompt     int             `json:"promptTokenCount"`
	Cached     int             `json:"cachedContentTokenCount,omitempty"`
	Candidates int             `json:"candidatesTokenCount,omitempty"`
	Thoughts   int             `json:"thoughtsTokenCount,omitempty"`
	Total      int             `json:"totalTokenCount"`
	Details    []geminiDetails `json:"candidatesTokensDetails,omitempty"`
}

type geminiDetails struct {
	Modality string `json:"modality"`
	Tokens   int    `json:"tokenCount"`
}

// geminiMethods holds the methods of a model by name.
var geminiMethods = map[string]func(w http.ResponseWriter, r *http.Request, model string, body []byte){
	"generateContent":       generateContent,
	"streamGenerateContent": generateContent,
	"batchEmbedContents":    embedContents,
	"predict":               predict,
}

// gemini answers POST /v1beta/models/{model}:{method}.
func gemini(w http.ResponseWriter, r *http.Request) {
	model, method, _ := strings.Cut(r.PathValue("call"), ":")
	if r.Header.Get("X-Goog-Api-Key") == "" {
		fail(w, r, http.StatusForbidden, "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || !json.Valid(body) {
		fail(w, r, http.StatusBadRequest, "Invalid JSON payload received.")
		return
	}
	answer, ok := geminiMethods[method]
	if !ok {
		fail(w, r, http.StatusNotFound, "models/"+model+" is not found for API version v1beta, or is not supported for "+method+".")
		return
	}
	answer(w, r, model, body)
}

// generateContent sends a whole answer or, under its other name, a stream. A model for images answers with one.
func generateContent(w http.ResponseWriter, r *http.Request, model string, body []byte) {
	var req geminiRequest
	if err := json.Unmarshal(body, &req); err != nil {
		fail(w, r, http.StatusBadRequest, "Invalid JSON payload received. "+err.Error())
		return
	}
	p, err := req.prompt()
	if err != nil {
		fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	base := geminiAnswer{ModelVersion: model, ResponseID: id("", 22, body, "gemini")}
	if len(req.Generation.Modalities) > 0 {
		writeJSON(w, http.StatusOK, imageAnswer(base, p))
		return
	}
	answer := respond(p, scripted(fault.FromContext(r.Context())))
	parts := geminiParts(answer, body)
	if strings.HasSuffix(r.URL.Path, ":streamGenerateContent") {
		streamGemini(startEvents(w), base, answer, parts)
		return
	}
	base.Candidates = []geminiCandidate{{Content: geminiContent{"model", parts}, FinishReason: geminiFinish(answer.finish)}}
	base.UsageMetadata = toGeminiUsage(answer.usage)
	writeJSON(w, http.StatusOK, base)
}

func (req geminiRequest) prompt() (prompt, error) {
	if len(req.Contents) == 0 {
		return prompt{}, errors.New("* GenerateContentRequest.contents: contents is not specified")
	}
	p := prompt{maxTokens: req.Generation.MaxTokens}
	for _, c := range append([]geminiContent{req.System}, req.Contents...) {
		if c.Role != "" && c.Role != "user" && c.Role != "model" {
			return prompt{}, errors.New("please use a valid role: user, model")
		}
		var said strings.Builder
		p.toolResult = nil
		for _, part := range c.Parts {
			said.WriteString(part.Text)
			if part.InlineData != nil {
				p.images++
			}
			if result := part.FunctionResponse; result != nil {
				p.toolResult = joinResult(p.toolResult, outputOf(result.Response))
				p.results++
			}
		}
		text := said.String()
		p.texts = append(p.texts, text)
		if p.toolResult != nil {
			p.texts = append(p.texts, *p.toolResult)
		} else if c.Role == "user" {
			p.lastUser = text
		}
	}
	for _, t := range req.Tools {
		for _, d := range t.Declarations {
			p.tools = append(p.tools, tool{name: d.Name, schema: d.Parameters})
		}
	}
	switch calling := req.ToolConfig.Calling; {
	case calling.Mode == "NONE":
		p.force = "none"
	case calling.Mode == "ANY" && len(calling.Allowed) > 0:
		p.forceName = calling.Allowed[0]
	case calling.Mode == "ANY":
		p.force = "any"
	}
	return p, nil
}

// outputOf returns a result's own text where it is in the usual field.
func outputOf(response json.RawMessage) string {
	var result struct {
		Output *string `json:"output"`
	}
	if json.Unmarshal(response, &result) == nil && result.Output != nil {
		return *result.Output
	}
	return string(response)
}

func geminiParts(answer reply, request []byte) []geminiPart {
	var parts []geminiPart
	if answer.thinking != "" {
		parts = append(parts, geminiPart{Text: answer.thinking, Thought: true})
	}
	if answer.text != "" || len(answer.calls) == 0 {
		parts = append(parts, geminiPart{Text: answer.text})
	}
	for i, c := range answer.calls {
		part := geminiPart{FunctionCall: &geminiCall{id("", 8, request, "tool"+strconv.Itoa(i)), c.Name, c.Arguments}}
		if i == 0 { // Of parallel calls, only the first is signed.
			part.ThoughtSignature = id("", 32, request, "signature")
		}
		parts = append(parts, part)
	}
	return parts
}

// streamGemini sends one word per chunk and each call whole; every chunk has token counts, and the last one has the
// finish reason.
func streamGemini(out events, base geminiAnswer, answer reply, parts []geminiPart) {
	var pieces []geminiPart
	for _, part := range parts {
		if part.FunctionCall != nil {
			pieces = append(pieces, part)
			continue
		}
		for _, word := range words(part.Text) {
			pieces = append(pieces, geminiPart{Text: word, Thought: part.Thought})
		}
	}
	for i, piece := range pieces {
		candidate := geminiCandidate{Content: geminiContent{"model", []geminiPart{piece}}}
		if base.UsageMetadata = toGeminiUsage(answer.usage); i < len(pieces)-1 && answer.usage != nil {
			base.UsageMetadata = &geminiUsage{Prompt: base.UsageMetadata.Prompt, Total: base.UsageMetadata.Prompt}
		} else if i == len(pieces)-1 {
			candidate.FinishReason = geminiFinish(answer.finish)
		}
		base.Candidates = []geminiCandidate{candidate}
		if !out.send("", encode(base)) {
			return
		}
	}
}

func toGeminiUsage(u *Usage) *geminiUsage {
	if u == nil {
		return nil
	}
	in := u.Input + u.CacheRead + u.CacheWrite
	return &geminiUsage{
		Prompt: in, Cached: u.CacheRead, Candidates: u.Output - u.Reasoning, Thoughts: u.Reasoning, Total: in + u.Output,
	}
}

func geminiFinish(finish string) string {
	switch finish {
	case "length":
		return "MAX_TOKENS"
	case "content_filter":
		return "SAFETY"
	default:
		return "STOP"
	}
}
