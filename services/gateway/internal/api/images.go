package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/openai"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// imagesAnswer is gatewayv1.ImagesResponse on the JSON face.
type imagesAnswer struct {
	// Created is the time in seconds since 1970, which only OpenAI's clients know.
	Created   int64   `json:"created,omitempty"`
	Data      []image `json:"data"`
	Usage     usage   `json:"usage"`
	Model     string  `json:"model"`
	RequestID string  `json:"request_id"`
}

type image struct {
	URL           string `json:"url,omitempty"`
	Base64        string `json:"b64_json,omitempty"`
	MimeType      string `json:"mime_type,omitempty"`
	RevisedPrompt string `json:"revised_prompt,omitempty"`
}

// GenerateImages serves images over gRPC.
func (s *inferenceServer) GenerateImages(ctx context.Context, m *gatewayv1.ImagesRequest) (*gatewayv1.ImagesResponse, error) {
	result, requestID, err := s.generate(ctx, m, s.rawOfMessage(m, formImages))
	if err != nil {
		return nil, err
	}
	eachHeader(result.Route, func(name, value string) { rpc.SetHeader(ctx, name, value) })
	out := &gatewayv1.ImagesResponse{Usage: toUsageProto(result.Report), Model: result.Report.Model, RequestId: requestID}
	for _, made := range result.Images {
		shown := toImage(made)
		out.Data = append(out.Data, &gatewayv1.GeneratedImage{
			Url: optional(shown.URL), B64Json: optional(shown.Base64),
			MimeType: optional(shown.MimeType), RevisedPrompt: optional(shown.RevisedPrompt),
		})
	}
	return out, nil
}

// serveImages serves images on the JSON face.
func (s *inferenceServer) serveImages(w http.ResponseWriter, r *http.Request) error {
	var created time.Time // Only OpenAI's clients know it.
	asked := r
	if DialectOf(r).Name == dialectOpenAI {
		body, err := peek(r)
		if err != nil {
			return err
		}
		if !openai.IsPlainImages(body) {
			return s.serveRelay(w, r, relayedImages)
		}
		created, asked = time.Now(), &http.Request{Body: io.NopCloser(bytes.NewReader(openai.WithoutUser(body)))}
	}
	m := new(gatewayv1.ImagesRequest)
	if err := s.decode(asked, m); err != nil {
		return err
	}
	result, requestID, err := s.generate(r.Context(), m, rawOfHTTP(r, formImages))
	if err != nil {
		return err
	}
	eachHeader(result.Route, inOne(w.Header()))
	text, err := imagesAt(result, requestID, created)
	if err != nil {
		return err
	}
	writeText(w, text)
	return nil
}

// toImage returns the bytes of an image if there are any, else its URL.
func toImage(made provider.Image) image {
	if made.Base64 == "" {
		return image{URL: made.URL, RevisedPrompt: made.RevisedPrompt}
	}
	return image{Base64: made.Base64, MimeType: made.MediaType, RevisedPrompt: made.RevisedPrompt}
}

func (s *inferenceServer) generate(ctx context.Context, m *gatewayv1.ImagesRequest, raw trace.RawRequest) (*inference.ImageResult, string, error) {
	request, err := toImageRequest(ctx, m)
	if err != nil {
		return nil, "", err
	}
	request.Raw = raw
	result, err := s.engine.MakeImages(ctx, request)
	if err != nil {
		return nil, "", fmt.Errorf("images: %w", err)
	}
	annotate(ctx, result.Route, result.Report)
	return result, request.ID, nil
}

func toImageRequest(ctx context.Context, m *gatewayv1.ImagesRequest) (*inference.Request, error) {
	r, err := newRequest(ctx, provider.OperationImages, m, m.AllowSubstitution)
	if err != nil {
		return nil, err
	}
	prompt, err := imagePrompt(m)
	if err != nil {
		return nil, err
	}
	r.ImageRequest = provider.ImageRequest{
		Prompt: prompt, Count: 1, Size: m.GetSize(), Quality: m.GetQuality(), Format: m.GetOutputFormat(), Delivery: m.GetResponseFormat(),
	}
	if m.N != nil {
		r.ImageRequest.Count = int(m.GetN())
	}
	return r, nil
}

// imagePrompt returns the description of the image: the prompt, or the texts of a conversation in order. Turns can only
// describe: no role and no input image is sent to a provider.
func imagePrompt(m *gatewayv1.ImagesRequest) (string, error) {
	if (m.GetPrompt() == "") == (len(m.GetMessages()) == 0) {
		return "", apierr.Invalid("prompt, messages", "exactly one of them is required")
	}
	if m.GetPrompt() != "" {
		return m.GetPrompt(), nil
	}
	if err := plainContent(m.GetMessages()); err != nil {
		return "", err
	}
	var texts []string
	for i, message := range m.GetMessages() {
		converted, err := toMessage(message)
		switch {
		case err != nil:
			return "", within(dialect.At("messages", i), err)
		case converted.Role != provider.RoleSystem && converted.Role != provider.RoleUser:
			return "", apierr.Invalid(dialect.At("messages", i)+".role", "must be system or user in a description of an image")
		}
		for j, part := range converted.Content {
			if part.ImageURL != "" {
				return "", apierr.Invalid(dialect.At(dialect.At("messages", i)+".content", j), "must be text in a description of an image")
			}
		}
		texts = append(texts, converted.Text())
	}
	prompt := strings.TrimSpace(strings.Join(texts, "\n\n"))
	if prompt == "" || len(prompt) > maxImagePrompt {
		return "", apierr.Invalid("messages", fmt.Sprintf("their texts must be 1 to %d bytes", maxImagePrompt))
	}
	return prompt, nil
}

// maxImagePrompt is the contract's bound of a prompt, here in bytes.
const maxImagePrompt = 32768
