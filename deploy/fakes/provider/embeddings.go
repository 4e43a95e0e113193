package provider

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/fnv"
	"math"
	"net/http"
	"strings"
)

const (
	maxInputs     = 2048
	maxDimensions = 3072
)

type embeddingRequest struct {
	Model          string          `json:"model"`
	Input          json.RawMessage `json:"input"`
	EncodingFormat string          `json:"encoding_format"`
	Dimensions     int             `json:"dimensions"`
}

type embeddingList struct {
	Object string         `json:"object"`
	Data   []embedding    `json:"data"`
	Model  string         `json:"model"`
	Usage  embeddingUsage `json:"usage"`
}

type embedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"` // []float32, or base64 of little-endian float32
}

type embeddingUsage struct {
	PromptTokens int `json:"prompt_tokens"`
	TotalTokens  int `json:"total_tokens"`
}

// embed answers POST /v1/embeddings.
func embed(w http.ResponseWriter, r *http.Request, body []byte) {
	var req embeddingRequest
	if err := json.Unmarshal(body, &req); err != nil || req.Model == "" {
		fail(w, r, http.StatusBadRequest, "you must provide a model parameter")
		return
	}
	inputs, tokens, err := readInputs(req.Input)
	if err != nil {
		fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	dims, err := req.dimensions()
	if err != nil {
		fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	list := embeddingList{Object: "list", Model: req.Model, Usage: embeddingUsage{PromptTokens: tokens, TotalTokens: tokens}}
	for i, text := range inputs {
		var vector any = Vector(req.Model, text, dims)
		if req.EncodingFormat == "base64" {
			vector = packVector(Vector(req.Model, text, dims))
		}
		list.Data = append(list.Data, embedding{Object: "embedding", Index: i, Embedding: vector})
	}
	writeJSON(w, http.StatusOK, list)
}

// readInputs takes a text, texts, a token array, or token arrays, and counts them.
func readInputs(raw json.RawMessage) (inputs []string, tokens int, err error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = encode([]string{text})
	}
	var ids []int
	if json.Unmarshal(raw, &ids) == nil && len(ids) > 0 {
		raw = encode([][]int{ids})
	}
	var many [][]int
	switch {
	case json.Unmarshal(raw, &inputs) == nil:
		for _, s := range inputs {
			tokens += Tokens(s)
		}
	case json.Unmarshal(raw, &many) == nil:
		inputs = nil
		for _, ids := range many {
			inputs = append(inputs, string(encode(ids)))
			tokens += len(ids)
		}
	default:
		return nil, 0, errors.New("'$.input' is invalid. Please check the API reference: https://platform.openai.com/docs/api-reference")
	}
	if len(inputs) == 0 || len(inputs) > maxInputs {
		return nil, 0, errors.New("'$.input' is invalid: it must hold 1 to 2048 items")
	}
	return inputs, tokens, nil
}

func (req embeddingRequest) dimensions() (int, error) {
	if req.Dimensions < 0 || req.Dimensions > maxDimensions {
		return 0, errors.New("invalid value for 'dimensions'")
	}
	switch {
	case req.Dimensions > 0:
		return req.Dimensions, nil
	case strings.HasSuffix(req.Model, "-large"):
		return maxDimensions, nil
	default:
		return 1536, nil
	}
}

// Vector returns the embedding of a text: a unit vector that depends only on the model and the text.
func Vector(model, text string, dims int) []float32 {
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(model + "\x00" + text))
	state := seed.Sum64()
	raw := make([]float64, dims)
	var norm float64
	for i := range raw {
		raw[i] = float64(splitMix(&state)>>11)/(1<<52) - 1
		norm += raw[i] * raw[i]
	}
	norm = math.Sqrt(norm)
	vector := make([]float32, dims)
	for i := range raw {
		vector[i] = float32(raw[i] / norm)
	}
	return vector
}

// splitMix is the SplitMix64 generator (Steele, Lea and Flood, 2014).
func splitMix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

func packVector(vector []float32) string {
	raw := make([]byte, 0, 4*len(vector))
	for _, v := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
