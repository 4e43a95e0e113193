package provider

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// vertexVersion is the version of Anthropic's API in bodies to Vertex AI.
const vertexVersion = "vertex-2023-10-16"

// vertex answers as Vertex AI does for the models of a publisher, which it takes from the path. It wants an access token.
func vertex(w http.ResponseWriter, r *http.Request) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		fail(w, r, http.StatusUnauthorized, "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.")
		return
	}
	model, method, _ := strings.Cut(r.PathValue("call"), ":")
	switch r.PathValue("publisher") {
	case "google":
		r.Header.Set("X-Goog-Api-Key", token)
		vertexGoogle(w, r, model, method)
	case "anthropic":
		r.Header.Set("X-Api-Key", token)
		vertexClaude(w, r, model, method)
	default:
		fail(w, r, http.StatusNotFound, "Publisher Model was not found.")
	}
}

// vertexGoogle answers for Google's own models: as the Gemini API does, but for embeddings.
func vertexGoogle(w http.ResponseWriter, r *http.Request, model, method string) {
	if !strings.Contains(model, "embedding") {
		gemini(w, r)
		return
	}
	var req struct {
		Instances []struct {
			Content string `json:"content"`
		} `json:"instances"`
		Parameters struct {
			Dimensions int `json:"outputDimensionality"`
		} `json:"parameters"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || method != "predict" || json.Unmarshal(body, &req) != nil || len(req.Instances) == 0 || len(req.Instances) > 250 {
		fail(w, r, http.StatusBadRequest, "Invalid value at 'instances'")
		return
	}
	if model == "gemini-embedding-001" && len(req.Instances) > 1 {
		fail(w, r, http.StatusBadRequest, "The model supports one instance per request.")
		return
	}
	dims := req.Parameters.Dimensions
	if dims <= 0 || dims > maxDimensions {
		dims = maxDimensions
	}
	predictions := make([]any, len(req.Instances))
	for i, one := range req.Instances {
		predictions[i] = map[string]any{"embeddings": map[string]any{
			"values": Vector(model, one.Content, dims), "statistics": map[string]any{"truncated": false, "token_count": Tokens(one.Content)},
		}}
	}
	writeJSON(w, http.StatusOK, map[string]any{"predictions": predictions})
}

// vertexClaude answers for Claude: as the Messages API does, for bodies with the version in place of the model.
func vertexClaude(w http.ResponseWriter, r *http.Request, model, method string) {
	body, err := io.ReadAll(r.Body)
	var req map[string]json.RawMessage
	if err != nil || json.Unmarshal(body, &req) != nil {
		fail(w, r, http.StatusBadRequest, "Invalid JSON payload received.")
		return
	}
	_, named := req["model"]
	counts := model == "count-tokens"
	streams := string(req["stream"]) == "true"
	switch {
	case string(req["anthropic_version"]) != `"`+vertexVersion+`"`:
		fail(w, r, http.StatusBadRequest, "anthropic_version: Field required")
		return
	case named != counts, r.Header.Get("Anthropic-Version") != "":
		fail(w, r, http.StatusBadRequest, "model: Extra inputs are not permitted")
		return
	case method != "rawPredict" && method != "streamRawPredict", streams != (method == "streamRawPredict"):
		fail(w, r, http.StatusBadRequest, "stream: does not agree with the method")
		return
	case counts:
		writeJSON(w, http.StatusOK, map[string]int{"input_tokens": Tokens(string(req["messages"]))})
		return
	}
	delete(req, "anthropic_version")
	req["model"] = encode(model)
	r.Body = io.NopCloser(bytes.NewReader(encode(req)))
	r.Header.Set("Anthropic-Version", "2023-06-01")
	messages(w, r)
}
