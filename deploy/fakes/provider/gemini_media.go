package provider

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
)

// geminiImageTokens is the token count of one picture of a Gemini model.
const geminiImageTokens = 1290

type geminiEmbeddings struct {
	Embeddings []geminiVector `json:"embeddings"`
}

type geminiVector struct {
	Values []float32 `json:"values"`
}

// embedContents answers batchEmbedContents. It reports no tokens, as most models of the vendor don't.
func embedContents(w http.ResponseWriter, r *http.Request, model string, body []byte) {
	var req struct {
		Requests []struct {
			Content    geminiContent `json:"content"`
			Dimensions int           `json:"outputDimensionality"`
		} `json:"requests"`
	}
	if err := json.Unmarshal(body, &req); err != nil || len(req.Requests) == 0 || len(req.Requests) > 100 {
		fail(w, r, http.StatusBadRequest, "* BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch")
		return
	}
	var list geminiEmbeddings
	for _, one := range req.Requests {
		if one.Dimensions < 0 || one.Dimensions > maxDimensions || len(one.Content.Parts) == 0 {
			fail(w, r, http.StatusBadRequest, "* BatchEmbedContentsRequest.requests: invalid")
			return
		}
		dims := one.Dimensions
		if dims == 0 {
			dims = maxDimensions
		}
		list.Embeddings = append(list.Embeddings, geminiVector{Vector(model, one.Content.Parts[0].Text, dims)})
	}
	writeJSON(w, http.StatusOK, list)
}

type geminiPredictions struct {
	Predictions []geminiPrediction `json:"predictions"`
}

type geminiPrediction struct {
	MimeType string `json:"mimeType"`
	Bytes    string `json:"bytesBase64Encoded"`
}

// predict answers for Imagen models.
func predict(w http.ResponseWriter, r *http.Request, _ string, body []byte) {
	var req struct {
		Instances []struct {
			Prompt string `json:"prompt"`
		} `json:"instances"`
		Parameters struct {
			Count int `json:"sampleCount"`
		} `json:"parameters"`
	}
	if err := json.Unmarshal(body, &req); err != nil || len(req.Instances) != 1 || req.Instances[0].Prompt == "" || req.Parameters.Count > 4 {
		fail(w, r, http.StatusBadRequest, "Invalid value at 'instances'")
		return
	}
	var list geminiPredictions
	for i := range max(req.Parameters.Count, 1) {
		list.Predictions = append(list.Predictions, geminiPrediction{"image/png", squarePNG(req.Instances[0].Prompt, i)})
	}
	writeJSON(w, http.StatusOK, list)
}

// imageAnswer returns the answer of a Gemini model that generates images.
func imageAnswer(base geminiAnswer, p prompt) geminiAnswer {
	part := geminiPart{InlineData: &geminiBlob{"image/png", squarePNG(p.lastUser, 0)}}
	base.Candidates = []geminiCandidate{{Content: geminiContent{"model", []geminiPart{part}}, FinishReason: "STOP"}}
	base.UsageMetadata = &geminiUsage{
		Prompt: p.tokens(), Candidates: geminiImageTokens, Total: p.tokens() + geminiImageTokens,
		Details: []geminiDetails{{"IMAGE", geminiImageTokens}},
	}
	return base
}

// squarePNG returns a small square whose colour depends on the prompt, as a PNG in base64.
func squarePNG(prompt string, index int) string {
	sum := sha256.Sum256([]byte(prompt + "\x00" + strconv.Itoa(index)))
	return base64.StdEncoding.EncodeToString(drawPNG([3]byte(sum[:3])))
}
