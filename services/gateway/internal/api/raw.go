package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/anthropic"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/gemini"
	"switchyard.dev/services/gateway/internal/api/openai"
	"switchyard.dev/services/gateway/internal/api/responses"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/sampling"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/screen"
)

// Forms of captured requests: the contract's messages, and other APIs' bodies.
const (
	formChat             = "chat"
	formEmbeddings       = "embeddings"
	formVision           = "vision"
	formImages           = "images"
	formOpenAI           = "openai"
	formResponses        = "responses"
	formAnthropic        = "anthropic"
	formOpenAIEmbeddings = "openai_embeddings"
	formGemini           = "gemini"
	formGeminiEmbeddings = "gemini_embeddings"
)

// rawHeaders are the headers that affect a request. None holds a credential.
var rawHeaders = []string{
	headerGoal, headerAskedProvider, headerByok, headerSubstitution, headerClassification, headerLocale, headerLanguageMode, headerCache,
	headerApproval, headerDeployment, "Anthropic-Version", "Anthropic-Beta", "Openai-Beta",
}

// rawOfHTTP returns a request of the JSON face unchanged, except that it leaves out headers that seem to hold a key. If
// the face reads such a header, it refuses the request; otherwise the header has no effect.
func rawOfHTTP(r *http.Request, form string) trace.RawRequest {
	raw := trace.RawRequest{Form: form, Body: rpc.Body(r)}
	for _, name := range rawHeaders {
		if values := r.Header[name]; len(values) > 0 && !slices.ContainsFunc(values, screen.HasKeyForm) {
			if raw.Header == nil {
				raw.Header = make(http.Header)
			}
			raw.Header[name] = values
		}
	}
	return raw
}

// rawOfMessage returns a request that came as a message, encoded when it is first
// needed.
func (s *inferenceServer) rawOfMessage(m proto.Message, form string) trace.RawRequest {
	return trace.RawRequest{Form: form, Encode: func() (json.RawMessage, error) { return s.encode(m) }}
}

// ofMessage is what the contract's requests with an organization and a run have in common.
type ofMessage interface {
	proto.Message
	asked
}

// read makes a request of one that was captured, for the present caller, by the present
// rules. The run that it belonged to is left out.
func (s *inferenceServer) read(ctx context.Context, raw trace.RawRequest, organization, run string) (*inference.Request, error) {
	c := caller.From(ctx)
	c.Organization, c.Run = organization, run
	ctx = caller.With(ctx, c)
	r, err := s.parse(ctx, raw, run)
	if err != nil {
		return nil, err
	}
	r.Raw = raw
	return r, nil
}

func (s *inferenceServer) parse(ctx context.Context, raw trace.RawRequest, run string) (*inference.Request, error) {
	switch raw.Form {
	case formChat:
		m := new(gatewayv1.LlmRequest)
		return captured(s, raw, m, &m.RunId, run, func() (*inference.Request, error) { return toRequest(ctx, m) })
	case formEmbeddings:
		m := new(gatewayv1.EmbeddingsRequest)
		return captured(s, raw, m, &m.RunId, run, func() (*inference.Request, error) { return toEmbedding(ctx, m) })
	case formVision:
		m := new(gatewayv1.VisionRequest)
		return captured(s, raw, m, &m.RunId, run, func() (*inference.Request, error) { return toVision(ctx, m) })
	case formImages:
		m := new(gatewayv1.ImagesRequest)
		return captured(s, raw, m, &m.RunId, run, func() (*inference.Request, error) { return toImageRequest(ctx, m) })
	case formOpenAI:
		return parseDialect(ctx, openai.Dialect{}, raw, run)
	case formResponses:
		return parseDialect(ctx, responses.Dialect{}, raw, run)
	case formAnthropic:
		return parseDialect(ctx, anthropic.Dialect{}, raw, run)
	case formGemini:
		return parseDialect(ctx, gemini.Dialect{}, raw, run)
	case formGeminiEmbeddings:
		wanted, err := gemini.ReadEmbedding(raw.Body, "")
		if err != nil {
			return nil, err
		}
		return toGeminiEmbedding(ctx, wanted, raw.Header, func(e *extension) { e.RunID = run })
	case formOpenAIEmbeddings:
		wanted, err := readOpenAIEmbeddings(raw.Body)
		if err != nil {
			return nil, err
		}
		return toOpenAIEmbedding(ctx, wanted, raw.Header, func(e *extension) { e.RunID = run })
	case toolcall.Form:
		return nil, apierr.New(apierr.KindUnprocessable, apierr.ReasonUnprocessable,
			"request_id: the request called a tool, which is never called again by itself")
	case sampling.Form:
		return nil, apierr.New(apierr.KindUnprocessable, apierr.ReasonUnprocessable,
			"request_id: a tool server asked for the completion, which is not made again by itself")
	}
	if call := relayOfForm(raw.Form); call != nil {
		return call.parse(ctx, raw, run)
	}
	return nil, apierr.Internal(fmt.Errorf("no form %q of a request", raw.Form))
}

// captured decodes a message of the contract and puts the run of now into it.
func captured(s *inferenceServer, raw trace.RawRequest, m ofMessage, field *string, run string, to func() (*inference.Request, error)) (*inference.Request, error) {
	if err := s.decode(&http.Request{Body: io.NopCloser(bytes.NewReader(raw.Body))}, m); err != nil {
		return nil, err
	}
	*field = run
	return to()
}

func parseDialect(ctx context.Context, d dialect.Dialect, raw trace.RawRequest, run string) (*inference.Request, error) {
	chat, err := d.Chat(raw.Body, raw.Header)
	if err != nil {
		return nil, err
	}
	return toNativeRequest(ctx, chat, raw.Header, func(e *extension) { e.RunID = run })
}

// AnswerJSON writes the answer of a record in the contract's words; nil where it
// would be much longer than what is kept of it.
func AnswerJSON(a *trace.Observation) (json.RawMessage, error) {
	if a.Answer.Written != nil {
		return a.Answer.Written, nil
	}
	var report ledger.Report
	if a.Report != nil {
		report = *a.Report
	}
	switch answer := a.Answer; a.Request.Route.Operation {
	case provider.OperationEmbeddings:
		const digits = 3 // A number takes about this many characters for each of its bytes.
		if digits*a.AnswerBytes > max(a.Keep, minKept) {
			return nil, nil
		}
		return embeddingsJSON(&inference.Embedded{Vectors: answer.Vectors, Report: report}, a.Request.ID)
	case provider.OperationImages:
		return imagesJSON(&inference.ImageResult{Images: answer.Images, Report: report}, a.Request.ID)
	default:
		completion := &inference.Completion{Text: answer.Text, ToolCalls: answer.ToolCalls, FinishReason: answer.FinishReason, Report: report}
		return completionJSON(completion, a.Request.Route.Operation, a.Request.ID)
	}
}

// minKept is the length up to which an answer is always encoded, so that it can be hashed.
const minKept = 64 << 10

func embeddingsJSON(e *inference.Embedded, requestID string) (json.RawMessage, error) {
	return encodeEmbeddings(e, requestID, appendVector)
}

func imagesJSON(result *inference.ImageResult, requestID string) (json.RawMessage, error) {
	return imagesAt(result, requestID, time.Time{})
}

// imagesAt returns the answer as it is sent; the zero time leaves it out.
func imagesAt(result *inference.ImageResult, requestID string, made time.Time) (json.RawMessage, error) {
	answer := imagesAnswer{Usage: toUsage(result.Report), Model: result.Report.Model, RequestID: requestID}
	if !made.IsZero() {
		answer.Created = made.Unix()
	}
	for _, one := range result.Images {
		answer.Data = append(answer.Data, toImage(one))
	}
	return jsontext.Marshal(answer)
}

func completionJSON(c *inference.Completion, operation provider.Operation, requestID string) (json.RawMessage, error) {
	if operation == provider.OperationVision {
		return jsontext.Marshal(visionAnswer{
			Content: c.Text, Usage: toUsage(c.Report), FinishReason: string(c.FinishReason), Model: c.Report.Model, RequestID: requestID,
		})
	}
	return answerJSON(c, requestID)
}
