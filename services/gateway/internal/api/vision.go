package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/imagefetch"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// defaultImageType is the type of base64 data without a recognizable type.
const defaultImageType = "image/jpeg"

// visionAnswer is gatewayv1.VisionResponse on the JSON face.
type visionAnswer struct {
	Content      string `json:"content"`
	Usage        usage  `json:"usage"`
	FinishReason string `json:"finish_reason"`
	Model        string `json:"model"`
	RequestID    string `json:"request_id"`
}

// DescribeImage serves a question about an image over gRPC.
func (s *inferenceServer) DescribeImage(ctx context.Context, m *gatewayv1.VisionRequest) (*gatewayv1.VisionResponse, error) {
	completion, requestID, err := s.describe(ctx, m, s.rawOfMessage(m, formVision))
	if err != nil {
		return nil, err
	}
	eachHeader(completion.Route, func(name, value string) { rpc.SetHeader(ctx, name, value) })
	return &gatewayv1.VisionResponse{
		Content: completion.Text, Usage: toUsageProto(completion.Report), FinishReason: string(completion.FinishReason),
		Model: completion.Report.Model, RequestId: requestID,
	}, nil
}

// serveVision serves a question about an image on the JSON face.
func (s *inferenceServer) serveVision(w http.ResponseWriter, r *http.Request) error {
	m := new(gatewayv1.VisionRequest)
	if err := s.decode(r, m); err != nil {
		return err
	}
	completion, requestID, err := s.describe(r.Context(), m, rawOfHTTP(r, formVision))
	if err != nil {
		return err
	}
	eachHeader(completion.Route, inOne(w.Header()))
	return writeJSON(w, visionAnswer{
		Content: completion.Text, Usage: toUsage(completion.Report), FinishReason: string(completion.FinishReason),
		Model: completion.Report.Model, RequestID: requestID,
	})
}

func (s *inferenceServer) describe(ctx context.Context, m *gatewayv1.VisionRequest, raw trace.RawRequest) (*inference.Completion, string, error) {
	request, err := toVision(ctx, m)
	if err != nil {
		return nil, "", err
	}
	request.Raw = raw
	completion, err := s.engine.Chat(ctx, request)
	if err != nil {
		return nil, "", fmt.Errorf("vision: %w", err)
	}
	annotate(ctx, completion.Route, completion.Report)
	return completion, request.ID, nil
}

// toVision returns a chat from a question about an image.
func toVision(ctx context.Context, m *gatewayv1.VisionRequest) (*inference.Request, error) {
	r, err := newRequest(ctx, provider.OperationVision, m, m.AllowSubstitution)
	if err != nil {
		return nil, err
	}
	url, err := imageURL(m.GetImage())
	if err != nil {
		return nil, err
	}
	r.BypassCache = m.GetCache() == bypass
	r.Chat = provider.Chat{
		MaxTokens: int(m.GetMaxTokens()),
		Messages: []provider.Message{{
			Role: provider.RoleUser, Content: []provider.Part{{Text: m.GetPrompt()}, {ImageURL: url}},
		}},
	}
	return r, nil
}

// imageURL returns an image's URL, or a data URL of its bytes. Bytes without a type get the type that they show; the
// engine inspects all images.
func imageURL(image *gatewayv1.ImageRef) (string, error) {
	switch url, text := image.GetUrl(), image.GetBase64(); {
	case (url == "") == (text == ""):
		return "", apierr.Invalid("image.url, image.base64", "exactly one of them is required")
	case strings.HasPrefix(url, "data:"):
		return "", apierr.Invalid("image.url", "must be an https URL; bytes belong into image.base64")
	case url != "":
		return url, nil
	default:
		kind := cmp.Or(imagefetch.TypeOfBase64(text), defaultImageType)
		return imagefetch.DataURI(kind, text), nil
	}
}
