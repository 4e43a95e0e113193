package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"switchyard.dev/deploy/fakes/fault"
)

// invoke answers with a model's own form: Claude's messages, or the vectors of Titan and Cohere.
func invoke(w http.ResponseWriter, r *http.Request, body []byte) {
	stream := r.PathValue("operation") != "invoke"
	switch model := r.PathValue("model"); {
	case strings.Contains(model, "anthropic."):
		invokeClaude(w, r, body, stream)
	case stream:
		fail(w, r, http.StatusBadRequest, "The model is unsupported for streaming.")
	case strings.Contains(model, "amazon.titan-embed"):
		invokeTitan(w, r, body)
	case strings.Contains(model, "cohere.embed"):
		invokeCohere(w, r, body)
	default:
		fail(w, r, http.StatusNotFound, "")
	}
}

// messagesVersion is the version of Anthropic's API that the vendor takes.
const messagesVersion = "bedrock-2023-05-31"

// readInvocation reads a body of Claude's. Model and stream are not in it.
func readInvocation(model string, body []byte) (prompt, error) {
	var own struct {
		messagesRequest

		Version string          `json:"anthropic_version"`
		Betas   []string        `json:"anthropic_beta"`
		Model   json.RawMessage `json:"model"`
		Stream  json.RawMessage `json:"stream"`
	}
	if err := json.Unmarshal(body, &own); err != nil {
		return prompt{}, errors.New("Malformed input request: " + err.Error())
	}
	switch {
	case own.Version != messagesVersion:
		return prompt{}, errors.New("invalid anthropic_version")
	case own.Model != nil:
		return prompt{}, errors.New("model: Extra inputs are not permitted")
	case own.Stream != nil:
		return prompt{}, errors.New("stream: Extra inputs are not permitted")
	}
	req := own.messagesRequest
	req.Model = model
	return req.prompt(strings.Contains(strings.Join(own.Betas, ","), systemMessages))
}

func invokeClaude(w http.ResponseWriter, r *http.Request, body []byte, stream bool) {
	model := r.PathValue("model")
	p, err := readInvocation(model, body)
	if err != nil {
		fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	answer := respond(p, scripted(fault.FromContext(r.Context())))
	base := message{
		ID: id("msg_bdrk_01", 22, body, "message"), Type: "message", Role: "assistant", Model: model,
		Content: []any{}, Usage: messagesUsage(answer.usage),
	}
	blocks, stop := contentBlocks(answer, body), stopReason(answer.finish)
	if !stream {
		base.Content, base.StopReason = blocks, &stop
		writeJSON(w, http.StatusOK, base)
		return
	}
	out := startFrames(w)
	for _, e := range messageEvents(base, blocks, stop) {
		data := encode(e.data)
		if e.name == "message_stop" && answer.usage != nil {
			metrics := `,"amazon-bedrock-invocationMetrics":{"inputTokenCount":` + strconv.Itoa(answer.usage.Input) +
				`,"outputTokenCount":` + strconv.Itoa(answer.usage.Output) + `}}`
			data = append(bytes.TrimSuffix(data, []byte("}")), metrics...)
		}
		if !out.send(chunkFrame(e.name, string(data))) {
			return
		}
	}
}

func invokeTitan(w http.ResponseWriter, r *http.Request, body []byte) {
	var req struct {
		Text       string `json:"inputText"`
		Dimensions int    `json:"dimensions"`
	}
	if json.Unmarshal(body, &req) != nil || req.Text == "" || req.Dimensions < 0 || req.Dimensions > maxDimensions {
		fail(w, r, http.StatusBadRequest, "Malformed input request: #: required key [inputText] not found, please reformat your input and try again.")
		return
	}
	if req.Dimensions == 0 {
		req.Dimensions = cohereDimensions
	}
	writeJSON(w, http.StatusOK, struct {
		Embedding []float32 `json:"embedding"`
		Tokens    int       `json:"inputTextTokenCount"`
	}{Vector(r.PathValue("model"), req.Text, req.Dimensions), Tokens(req.Text)})
}

func invokeCohere(w http.ResponseWriter, r *http.Request, body []byte) {
	var req struct {
		Texts     []string `json:"texts"`
		InputType string   `json:"input_type"`
	}
	if json.Unmarshal(body, &req) != nil || len(req.Texts) == 0 || len(req.Texts) > maxCohereTexts || req.InputType == "" {
		fail(w, r, http.StatusBadRequest, "Malformed input request: texts must hold 1 to 96 items, and input_type is required.")
		return
	}
	answer := cohereAnswer{ID: id("", 22, body, "cohere"), Texts: req.Texts}
	tokens := 0
	for _, text := range req.Texts {
		answer.Embeddings.Float = append(answer.Embeddings.Float, Vector(r.PathValue("model"), text, cohereDimensions))
		tokens += Tokens(text)
	}
	w.Header().Set("X-Amzn-Bedrock-Input-Token-Count", strconv.Itoa(tokens))
	writeJSON(w, http.StatusOK, struct {
		ID         string           `json:"id"`
		Type       string           `json:"response_type"`
		Embeddings cohereEmbeddings `json:"embeddings"`
		Texts      []string         `json:"texts"`
	}{answer.ID, "embeddings_by_type", answer.Embeddings, answer.Texts})
}

// countBedrock answers POST /model/{model}/count-tokens, for a body of InvokeModel or of Converse.
func countBedrock(w http.ResponseWriter, r *http.Request, body []byte) {
	var req struct {
		Input struct {
			Invocation *struct {
				Body []byte `json:"body"`
			} `json:"invokeModel"`
			Converse *converseRequest `json:"converse"`
		} `json:"input"`
	}
	err := json.Unmarshal(body, &req)
	var p prompt
	switch {
	case err != nil:
	case req.Input.Invocation != nil:
		p, err = readInvocation(r.PathValue("model"), req.Input.Invocation.Body)
	case req.Input.Converse != nil:
		p, err = req.Input.Converse.prompt()
	default:
		err = errors.New("input: one of invokeModel and converse is required")
	}
	if err != nil {
		fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, struct {
		Tokens int `json:"inputTokens"`
	}{p.tokens()})
}
