package openai

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// maxInputs is the largest number of texts, or token sequences, in one call.
const maxInputs = 2048

type embeddingRequest struct {
	Model string `json:"model"`
	// Input is a []string, or [][]int32 of tokens.
	Input      any `json:"input"`
	Dimensions int `json:"dimensions,omitempty"`
	// EncodingFormat "base64" halves the bytes. OpenAI's own clients request it, so that compatible servers support it,
	// or answer with plain numbers.
	EncodingFormat string `json:"encoding_format"`
}

// Embed returns vectors, with one call.
func (p *Provider) Embed(ctx context.Context, credential provider.Credential, request *provider.Embedding) (*provider.Vectors, error) {
	if request.Len() > maxInputs {
		return nil, provider.Unsupported("input", fmt.Sprintf("must hold at most %d texts for this provider", maxInputs))
	}
	var input any = request.Input
	if len(request.Tokens) > 0 {
		input = request.Tokens
	}
	answer, err := p.ask(ctx, credential, embeddings, request.Model, embeddingRequest{
		Model: request.Model, Input: input, Dimensions: request.Dimensions, EncodingFormat: "base64",
	})
	if err != nil {
		return nil, err
	}
	vectors, err := vectorsOf(answer.data, request.Len())
	if err != nil {
		return nil, err
	}
	made := &provider.Vectors{Vectors: vectors, Usage: inputOf(answer.usage), Model: wire.Text(answer.model)}
	if err := made.Check(); err != nil {
		return nil, err
	}
	return made, nil
}

// inputOf returns a usage that is all input. Some servers report only the total, beside a zero or nothing.
func inputOf(usage gjson.Result) *provider.Usage {
	var input *provider.Usage
	for _, name := range []string{"prompt_tokens", "total_tokens"} {
		if tokens := usage.Get(name); tokens.Type == gjson.Number && input.Reported() == nil {
			input = &provider.Usage{Input: count(tokens)}
		}
	}
	return input
}

// vectorsOf returns the vectors in the order of their inputs. None is there twice.
func vectorsOf(data gjson.Result, inputs int) ([][]float32, error) {
	vectors := make([][]float32, inputs)
	var problem error
	position := 0
	each(data, func(item gjson.Result) {
		at := position
		if index := item.Get("index"); index.Type == gjson.Number {
			at = int(index.Int())
		}
		position++
		switch {
		case problem != nil:
		case at < 0 || at >= inputs || vectors[at] != nil:
			problem = wire.Malformed("the answer holds a vector that was not requested", nil)
		default:
			vectors[at], problem = vectorOf(item.Get("embedding"))
		}
	})
	if problem != nil {
		return nil, problem
	}
	return vectors, nil
}

// vectorOf parses both forms: base64 of little-endian 32-bit floats, and numbers.
func vectorOf(value gjson.Result) ([]float32, error) {
	var vector []float32
	switch {
	case value.Type == gjson.String:
		raw, err := base64.StdEncoding.DecodeString(value.Str)
		if err != nil || len(raw)%4 != 0 {
			return nil, wire.Malformed("a vector is not base64 of 32-bit floats", err)
		}
		vector = make([]float32, len(raw)/4)
		for i := range vector {
			vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	case value.IsArray():
		each(value, func(number gjson.Result) {
			n := math.NaN()
			if number.Type == gjson.Number {
				n = number.Num
			}
			vector = append(vector, float32(n))
		})
	}
	for _, n := range vector {
		if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
			return nil, wire.Malformed("a vector holds a value that is not a number", nil)
		}
	}
	return vector, nil
}
