package provider

import (
	"encoding/json"
	"io"
	"net/http"
)

// cohereRequest holds the fields that the fake reads from an embed request; the rest is ignored.
type cohereRequest struct {
	Model      string   `json:"model"`
	Texts      []string `json:"texts"`
	Dimensions int      `json:"output_dimension"`
}

type cohereAnswer struct {
	ID         string           `json:"id"`
	Embeddings cohereEmbeddings `json:"embeddings"`
	Texts      []string         `json:"texts"`
	Meta       cohereMeta       `json:"meta"`
}

type cohereEmbeddings struct {
	Float [][]float32 `json:"float"`
}

type cohereMeta struct {
	BilledUnits cohereUnits `json:"billed_units"`
}

type cohereUnits struct {
	InputTokens int `json:"input_tokens"`
}

const (
	maxCohereTexts   = 96
	cohereDimensions = 1024
)

// cohere answers POST /v2/embed.
func cohere(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, message string) { writeJSON(w, status, map[string]string{"message": message}) }
	if r.Header.Get("Authorization") == "" {
		refuse(http.StatusUnauthorized, "no api key supplied")
		return
	}
	body, err := io.ReadAll(r.Body)
	var req cohereRequest
	if err != nil || json.Unmarshal(body, &req) != nil || req.Model == "" {
		refuse(http.StatusBadRequest, "invalid request: model is required")
		return
	}
	if len(req.Texts) == 0 || len(req.Texts) > maxCohereTexts || req.Dimensions < 0 || req.Dimensions > maxDimensions {
		refuse(http.StatusBadRequest, "invalid request: texts must hold 1 to 96 items")
		return
	}
	if req.Dimensions == 0 {
		req.Dimensions = cohereDimensions
	}
	answer := cohereAnswer{ID: id("", 22, body, "cohere"), Texts: req.Texts}
	for _, text := range req.Texts {
		answer.Embeddings.Float = append(answer.Embeddings.Float, Vector(req.Model, text, req.Dimensions))
		answer.Meta.BilledUnits.InputTokens += Tokens(text)
	}
	writeJSON(w, http.StatusOK, answer)
}
