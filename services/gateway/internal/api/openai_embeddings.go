package api

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// embeddingsOf serves both dialects of /v1/embeddings. The header that the edge sets says which one it is, or else the
// body does (isOpenAIEmbeddings).
func (s *inferenceServer) embeddingsOf(w http.ResponseWriter, r *http.Request) error {
	body, err := peek(r)
	if err != nil {
		return err
	}
	raw := rawOfHTTP(r, formEmbeddings)
	raw.Body = body
	if r.Header.Get(headerDialect) == dialectOpenAI || isOpenAIEmbeddings(body) {
		raw.Form = formOpenAIEmbeddings
		return s.serveOpenAIEmbeddings(w, r, raw)
	}
	return s.serveEmbeddings(w, r, raw)
}

// openAIEmbeddings is the request in OpenAI's form.
type openAIEmbeddings struct {
	model      string
	input      json.RawMessage
	dimensions int
	base64     bool
	extension  []byte
}

func readOpenAIEmbeddings(body []byte) (*openAIEmbeddings, error) {
	object, err := dialect.Parse(body)
	if err != nil {
		return nil, err
	}
	e := &openAIEmbeddings{input: object.Raw("input"), extension: object.Raw(dialect.Extension)}
	var format string
	for name, into := range map[string]any{"model": &e.model, "dimensions": &e.dimensions, "encoding_format": &format} {
		if err := object.Take(name, into); err != nil {
			return nil, err
		}
	}
	switch {
	case format != "" && format != "float" && format != "base64":
		return nil, apierr.Invalid("encoding_format", "must be float or base64")
	case object.Has("dimensions") && e.dimensions < 1:
		return nil, apierr.Invalid("dimensions", "must be at least 1")
	}
	e.base64 = format == "base64"
	return e, nil
}

// toOpenAIEmbedding returns the request; see toNativeRequest.
func toOpenAIEmbedding(ctx context.Context, wanted *openAIEmbeddings, header http.Header, change func(*extension)) (*inference.Request, error) {
	request, err := toEmbeddingRequest(ctx, wanted.model, wanted.extension, header, change)
	if err != nil {
		return nil, err
	}
	if request.Embedding, err = toInput(wanted.input); err != nil {
		return nil, err
	}
	request.Embedding.Dimensions = wanted.dimensions
	return request, nil
}

// toEmbeddingRequest returns a request without its input, from the model and the extension of a body.
func toEmbeddingRequest(
	ctx context.Context, model string, extended []byte, header http.Header, change func(*extension),
) (*inference.Request, error) {
	e, err := readExtension(extended, header)
	if err != nil {
		return nil, err
	}
	if change != nil {
		change(e)
	}
	m := e.message(model, nil)
	if err := ScreenMessage(m); err != nil {
		return nil, err
	}
	if err := rpc.Validate(m); err != nil {
		return nil, err
	}
	request, err := newRequest(ctx, provider.OperationEmbeddings, m, m.AllowSubstitution)
	if err != nil {
		return nil, err
	}
	request.BypassCache = m.GetCache() == bypass
	return request, nil
}

// serveOpenAIEmbeddings answers in OpenAI's words.
func (s *inferenceServer) serveOpenAIEmbeddings(w http.ResponseWriter, r *http.Request, raw trace.RawRequest) error {
	ctx := r.Context()
	wanted, err := readOpenAIEmbeddings(raw.Body)
	if err != nil {
		return err
	}
	request, err := toOpenAIEmbedding(ctx, wanted, r.Header, nil)
	if err != nil {
		return err
	}
	request.Raw = raw
	embedded, err := s.engine.Embed(ctx, request)
	if err != nil {
		return fmt.Errorf("embeddings: %w", err)
	}
	annotate(ctx, embedded.Route, embedded.Report)
	eachHeader(embedded.Route, inOne(w.Header()))
	eachReport(embedded.Report, inOne(w.Header()))
	vector := appendVector
	if wanted.base64 {
		vector = appendBase64
	}
	text, err := encodeEmbeddings(embedded, request.ID, vector)
	if err != nil {
		return err
	}
	writeText(w, text)
	return nil
}

// appendBase64 appends a vector as OpenAI's SDKs request it: little-endian float32 in base64, in a third of the bytes.
func appendBase64(dst []byte, vector []float32) []byte {
	raw := make([]byte, 0, 4*len(vector))
	for _, x := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	dst = append(dst, '"')
	return append(base64.StdEncoding.AppendEncode(dst, raw), '"')
}
