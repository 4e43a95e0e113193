package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strconv"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

const (
	// defaultDimensions is the length of a vector, maxDimensions the largest that may be requested.
	defaultDimensions = 256
	maxDimensions     = 4096
)

// Embed returns for each text a vector of length 1: the same for the same text and model, and nearly orthogonal to that
// of any other. It does the same for token sequences.
func (p *Provider) Embed(ctx context.Context, _ provider.Credential, r *provider.Embedding) (*provider.Vectors, error) {
	if err := begin(ctx, r.Model); err != nil {
		return nil, err
	}
	dimensions := r.Dimensions
	if dimensions == 0 {
		dimensions = defaultDimensions
	}
	if dimensions < 0 || dimensions > maxDimensions {
		return nil, provider.Unsupported("dimensions", "must be at most "+strconv.Itoa(maxDimensions)+" for the sandbox")
	}
	made := &provider.Vectors{Model: r.Model, Usage: new(provider.Usage)}
	for _, text := range r.Input {
		made.Vectors = append(made.Vectors, vector(r.Model, text, dimensions))
		made.Usage.Add(provider.Estimate(len(text), 0))
	}
	for _, tokens := range r.Tokens {
		made.Vectors = append(made.Vectors, vector(r.Model, spelled(tokens), dimensions))
		made.Usage.Input += int64(len(tokens))
	}
	return made, nil
}

// spelled encodes a token sequence as bytes that no text contains.
func spelled(tokens []int32) string {
	text := []byte{0xff}
	for _, token := range tokens {
		text = binary.LittleEndian.AppendUint32(text, uint32(token))
	}
	return string(text)
}

func vector(model, text string, dimensions int) []float32 {
	random := seeded(model, text)
	numbers := make([]float64, dimensions)
	var square float64
	for square == 0 { // practically always once, but a zero vector has no direction
		for i := range numbers {
			numbers[i] = random.NormFloat64()
			square += numbers[i] * numbers[i]
		}
	}
	made := make([]float32, dimensions)
	for i, n := range numbers {
		made[i] = float32(n / math.Sqrt(square))
	}
	return made
}

// seeded returns a source of random numbers that depends only on the texts.
func seeded(texts ...string) *rand.Rand {
	hash := sha256.New()
	for _, text := range texts {
		var size [8]byte
		binary.LittleEndian.PutUint64(size[:], uint64(len(text)))
		hash.Write(size[:])
		hash.Write([]byte(text))
	}
	return rand.New(rand.NewChaCha8([32]byte(hash.Sum(nil)))) //nolint:gosec // G404: it must be predictable.
}
