package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/rpc"
)

// Embed serves embeddings over gRPC.
func (s *inferenceServer) Embed(ctx context.Context, m *gatewayv1.EmbeddingsRequest) (*gatewayv1.EmbeddingsResponse, error) {
	embedded, requestID, err := s.embed(ctx, m, s.rawOfMessage(m, formEmbeddings))
	if err != nil {
		return nil, err
	}
	eachHeader(embedded.Route, func(name, value string) { rpc.SetHeader(ctx, name, value) })
	out := &gatewayv1.EmbeddingsResponse{
		Data:  make([]*gatewayv1.Embedding, len(embedded.Vectors)),
		Usage: toUsageProto(embedded.Report), Model: embedded.Report.Model, RequestId: requestID,
	}
	for i, vector := range embedded.Vectors {
		out.Data[i] = &gatewayv1.Embedding{Index: int32(i), Embedding: vector}
	}
	return out, nil
}

// serveEmbeddings answers on the JSON face.
func (s *inferenceServer) serveEmbeddings(w http.ResponseWriter, r *http.Request, raw trace.RawRequest) error {
	m := new(gatewayv1.EmbeddingsRequest)
	if err := s.decode(r, m); err != nil {
		return err
	}
	embedded, requestID, err := s.embed(r.Context(), m, raw)
	if err != nil {
		return err
	}
	eachHeader(embedded.Route, inOne(w.Header()))
	text, err := embeddingsJSON(embedded, requestID)
	if err != nil {
		return err
	}
	writeText(w, text)
	return nil
}

func (s *inferenceServer) embed(ctx context.Context, m *gatewayv1.EmbeddingsRequest, raw trace.RawRequest) (*inference.Embedded, string, error) {
	request, err := toEmbedding(ctx, m)
	if err != nil {
		return nil, "", err
	}
	request.Raw = raw
	embedded, err := s.engine.Embed(ctx, request)
	if err != nil {
		return nil, "", fmt.Errorf("embeddings: %w", err)
	}
	annotate(ctx, embedded.Route, embedded.Report)
	return embedded, request.ID, nil
}

func toEmbedding(ctx context.Context, m *gatewayv1.EmbeddingsRequest) (*inference.Request, error) {
	r, err := newRequest(ctx, provider.OperationEmbeddings, m, m.AllowSubstitution)
	if err != nil {
		return nil, err
	}
	if r.Embedding, err = toInput(m.GetInput()); err != nil {
		return nil, err
	}
	r.Embedding.Dimensions = int(m.GetDimensions())
	r.BypassCache = m.GetCache() == bypass
	return r, nil
}

// encodeEmbeddings writes gatewayv1.EmbeddingsResponse for the JSON face by hand, since nearly all of it are numbers.
// OpenAI's clients can read the answer too: "object" and usage.total_tokens are for them.
func encodeEmbeddings(e *inference.Embedded, requestID string, vector func(dst []byte, v []float32) []byte) ([]byte, error) {
	size := 512
	for _, v := range e.Vectors {
		size += 64 + 15*len(v)
	}
	text := append(make([]byte, 0, size), `{"object":"list","data":[`...)
	for i, v := range e.Vectors {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, `{"object":"embedding","index":`...)
		text = strconv.AppendInt(text, int64(i), 10)
		text = append(text, `,"embedding":`...)
		text = append(vector(text, v), '}')
	}
	rest, err := json.Marshal(embeddingsRest{embeddingsUsage{toUsage(e.Report), clamp(e.Report.Prompt)}, e.Report.Model, requestID})
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	text = append(text, "],"...)
	return append(text, rest[1:]...), nil
}

// isOpenAIEmbeddings reports whether a body of /v1/embeddings is in OpenAI's form: it has a field that only OpenAI
// defines and none that only the contract defines. A body with neither is the contract's, and its answer suits both.
func isOpenAIEmbeddings(body []byte) bool {
	theirs := false
	ours := false
	fields := (&gatewayv1.EmbeddingsRequest{}).ProtoReflect().Descriptor().Fields()
	gjson.ParseBytes(body).ForEach(func(key, _ gjson.Result) bool {
		switch name := key.Str; name {
		case "model", "input", "dimensions":
		case "encoding_format", "user", dialect.Extension:
			theirs = true
		default:
			ours = ours || fields.ByTextName(name) != nil
		}
		return true
	})
	return theirs && !ours
}

// embeddingsRest is the answer without its vectors.
type embeddingsRest struct {
	Usage     embeddingsUsage `json:"usage"`
	Model     string          `json:"model"`
	RequestID string          `json:"request_id"`
}

type embeddingsUsage struct {
	usage

	TotalTokens int32 `json:"total_tokens"`
}
