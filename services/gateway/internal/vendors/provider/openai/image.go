package openai

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

type imageRequest struct {
	Model          string `json:"model"`
	Prompt         string `json:"prompt"`
	N              int    `json:"n,omitempty"`
	Size           string `json:"size,omitempty"`
	Quality        string `json:"quality,omitempty"`
	OutputFormat   string `json:"output_format,omitempty"`
	ResponseFormat string `json:"response_format,omitempty"`
}

// MakeImages returns generated images, with one call.
func (p *Provider) MakeImages(ctx context.Context, credential provider.Credential, request *provider.ImageRequest) (*provider.Images, error) {
	body, err := encodeImage(request)
	if err != nil {
		return nil, err
	}
	answer, err := p.ask(ctx, credential, imageGenerations, request.Model, body)
	if err != nil {
		return nil, err
	}
	images := imagesOf(answer, request.Count)
	if len(images) != request.Count {
		return nil, wire.Malformed(fmt.Sprintf("the answer holds %d images of %d", len(images), request.Count), nil)
	}
	return &provider.Images{
		Images: images, Usage: imageUsage(answer.usage, len(images)), Model: wire.Text(answer.model),
	}, nil
}

// encodeImage handles two model families, by their names. The gpt-image models return bytes and support formats; the
// dall-e models return PNG, as bytes or as a URL. To any other model the request is sent as it is.
func encodeImage(d *provider.ImageRequest) (imageRequest, error) {
	r := imageRequest{
		Model: d.Model, Prompt: d.Prompt, N: d.Count, Size: d.Size, Quality: d.Quality,
		OutputFormat: d.Format, ResponseFormat: d.Delivery,
	}
	switch {
	case strings.Contains(d.Model, "gpt-image"):
		if d.Delivery == "url" {
			return r, provider.Unsupported("response_format", "must be b64_json for the model "+d.Model)
		}
		r.ResponseFormat = ""
	case strings.Contains(d.Model, "dall-e"):
		if d.Format != "" && d.Format != "png" {
			return r, provider.Unsupported("output_format", "must be png for the model "+d.Model)
		}
		r.OutputFormat = ""
	}
	return r, nil
}

// imagesOf returns the images of an answer, at most one more than most.
func imagesOf(answer reply, most int) []provider.Image {
	var images []provider.Image
	format := wire.Text(answer.format)
	each(answer.data, func(item gjson.Result) {
		if len(images) > most {
			return
		}
		image := provider.Image{
			URL: wire.Text(item.Get("url")), Base64: wire.Text(item.Get("b64_json")), RevisedPrompt: wire.Text(item.Get("revised_prompt")),
		}
		if image.Base64 != "" {
			image.MediaType = mediaType(image.Base64, format)
		}
		if image.Base64 != "" || image.URL != "" {
			images = append(images, image)
		}
	})
	return images
}

// mediaType returns the type that the first bytes show, or else the vendor's.
func mediaType(encoded, format string) string {
	const head = 64 // characters: 48 bytes
	begin, _ := base64.StdEncoding.DecodeString(encoded[:min(head, len(encoded)/4*4)])
	if found := http.DetectContentType(begin); strings.HasPrefix(found, "image/") {
		return found
	}
	switch format {
	case "png", "jpeg", "webp":
		return "image/" + format
	}
	return "application/octet-stream"
}

// imageUsage counts the images, and tokens if the model is billed by them (gpt-image). Its input may be text and
// images; its output is images, except for tokens that are reported as text.
func imageUsage(u gjson.Result, made int) *provider.Usage {
	in := split{left: count(u.Get("input_tokens"))}
	out := split{left: count(u.Get("output_tokens"))}
	usage := &provider.Usage{
		Images:     int64(made),
		ImageInput: in.take(count(u.Get("input_tokens_details.image_tokens"))),
		Output:     out.take(count(u.Get("output_tokens_details.text_tokens"))),
	}
	usage.Input, usage.ImageOutput = in.left, out.left
	return usage
}
