package gemini

import (
	"context"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

// imageConfig is the shape of images that Gemini models generate.
type imageConfig struct {
	AspectRatio string `json:"aspectRatio,omitempty"`
	Size        string `json:"imageSize,omitempty"`
}

type prediction struct {
	Instances  []instance `json:"instances"`
	Parameters parameters `json:"parameters"`
}

type instance struct {
	Prompt string `json:"prompt"`
}

type parameters struct {
	Count       int            `json:"sampleCount"`
	AspectRatio string         `json:"aspectRatio,omitempty"`
	Size        string         `json:"sampleImageSize,omitempty"`
	Output      *outputOptions `json:"outputOptions,omitempty"`
}

type outputOptions struct {
	MIMEType string `json:"mimeType"`
}

// MakeImages sends one call for all images to an Imagen model, and one call for each image to a Gemini model, which
// generates one at a time.
func (p *Provider) MakeImages(ctx context.Context, credential provider.Credential, request *provider.ImageRequest) (*provider.Images, error) {
	shape, err := shapeOf(request)
	if err != nil {
		return nil, err
	}
	if imagen(request.Model) {
		return p.predict(ctx, credential, request, shape)
	}
	return p.generate(ctx, credential, request, shape)
}

// imagen reports whether a model is an Imagen model, which has another method.
func imagen(model string) bool { return strings.HasPrefix(bare(model), "imagen") }

// shapes maps the sizes in pixels that a family of models generates to the dialect's names. Source: Google's pages of
// the Imagen 4 models, and genai's ImageConfig; for Gemini models only the exact sizes of squares are known.
var shapes = []struct {
	family string
	sizes  map[string]imageConfig
}{
	{"gemini-2.5-flash-image", map[string]imageConfig{"1024x1024": {"1:1", ""}}},
	{"imagen", map[string]imageConfig{
		"1024x1024": {"1:1", ""}, "896x1280": {"3:4", ""}, "1280x896": {"4:3", ""}, "768x1408": {"9:16", ""}, "1408x768": {"16:9", ""},
		"2048x2048": {"1:1", "2K"}, "1792x2560": {"3:4", "2K"}, "2560x1792": {"4:3", "2K"}, "1536x2816": {"9:16", "2K"}, "2816x1536": {"16:9", "2K"},
	}},
	{"", map[string]imageConfig{"1024x1024": {"1:1", "1K"}, "2048x2048": {"1:1", "2K"}, "4096x4096": {"1:1", "4K"}}},
}

// shapeOf returns an error for what the vendor can't generate: an image of another size, format or delivery than
// requested would be a silent change.
func shapeOf(request *provider.ImageRequest) (imageConfig, error) {
	switch {
	case request.Delivery == "url":
		return imageConfig{}, provider.Unsupported("response_format", "this provider supports b64_json only")
	case request.Quality != "" && request.Quality != "auto":
		return imageConfig{}, provider.Unsupported("quality", "this provider has no such setting")
	case request.Format == "" || request.Format == "png":
	case !imagen(request.Model) || request.Format != "jpeg":
		return imageConfig{}, provider.Unsupported("output_format", "this provider doesn't make "+request.Format)
	}
	if request.Size == "" || request.Size == "auto" {
		return imageConfig{}, nil
	}
	for _, family := range shapes {
		if strings.HasPrefix(bare(request.Model), family.family) {
			if shape, ok := family.sizes[request.Size]; ok {
				return shape, nil
			}
			break
		}
	}
	return imageConfig{}, provider.Unsupported("size", "this provider doesn't make "+request.Size)
}

// predict generates images that are priced by the piece, so that the usage counts only images.
func (p *Provider) predict(ctx context.Context, credential provider.Credential, request *provider.ImageRequest, shape imageConfig) (*provider.Images, error) {
	body := prediction{
		Instances:  []instance{{request.Prompt}},
		Parameters: parameters{Count: request.Count, AspectRatio: shape.AspectRatio, Size: shape.Size},
	}
	if request.Format != "" {
		body.Parameters.Output = &outputOptions{"image/" + request.Format}
	}
	root, _, err := p.call(ctx, credential, p.url(request.Model, "predict"), body)
	if err != nil {
		return nil, err
	}
	made := &provider.Images{Usage: &provider.Usage{Images: int64(request.Count)}}
	refused := ""
	root.Get("predictions").ForEach(func(_, one gjson.Result) bool {
		if data := wire.Text(one.Get("bytesBase64Encoded")); data != "" {
			made.Images = append(made.Images, provider.Image{
				Base64: data, MediaType: mediaType(one.Get("mimeType")), RevisedPrompt: wire.Text(one.Get("prompt")),
			})
		}
		if reason := wire.Text(one.Get("raiFilteredReason")); reason != "" {
			refused = reason
		}
		return len(made.Images) <= request.Count
	})
	switch n := len(made.Images); {
	case n == request.Count:
		return made, nil
	case n == 0 || n > request.Count:
		return nil, missing(refused)
	default: // The images that it generated are billed.
		return nil, &provider.PartialError{Err: missing(refused), Usage: provider.Usage{Images: int64(n)}}
	}
}

// missing returns the error of an answer with fewer images than requested: the vendor leaves out those that its filters
// refused, with or without a reason.
func missing(reason string) error {
	if reason == "" {
		reason = "the provider left out images that its filters refused"
	}
	return &provider.Error{Class: apierr.ClassContentPolicy, Status: http.StatusOK, Text: wire.Shorten(reason)}
}

func mediaType(value gjson.Result) string {
	if kind := wire.Text(value); kind != "" {
		return kind
	}
	return "image/png"
}

// generate makes Count calls, a few at a time; a call that fails ends the others.
func (p *Provider) generate(ctx context.Context, credential provider.Credential, d *provider.ImageRequest, shape imageConfig) (*provider.Images, error) {
	generation := generationConfig{Modalities: []string{"TEXT", "IMAGE"}}
	if shape != (imageConfig{}) {
		generation.Image = &shape
	}
	ask := &request{
		Contents: []content{{roleUser, []part{{Text: d.Prompt}}}}, Generation: &generation,
	}
	answers, err := provider.Parts(ctx, d.Count, func(ctx context.Context, _ int) (*provider.Images, *provider.Usage, error) {
		root, _, err := p.call(ctx, credential, p.url(d.Model, "generateContent"), ask)
		if err != nil {
			return nil, nil, err
		}
		made, err := imageOf(root)
		if err != nil || made.Usage == nil {
			return made, nil, err
		}
		usage := *made.Usage
		usage.Images = int64(len(made.Images))
		return made, &usage, nil
	}, func(int) provider.Usage {
		usage := provider.Estimate(len(d.Prompt), 0)
		usage.Images = 1
		return usage
	})
	if err != nil {
		return nil, err
	}
	return together(answers), nil
}

// imageOf returns the image of an answer; drafts from the model's thinking are skipped.
func imageOf(root gjson.Result) (*provider.Images, error) {
	var r reader
	p, err := r.read(root)
	if err != nil {
		return nil, err
	}
	made := &provider.Images{Usage: r.usage, Model: wire.Text(root.Get("modelVersion"))}
	root.Get("candidates.0.content.parts").ForEach(func(_, part gjson.Result) bool {
		if data := part.Get("inlineData"); data.Exists() && !part.Get("thought").Bool() {
			made.Images = []provider.Image{{Base64: wire.Text(data.Get("data")), MediaType: mediaType(data.Get("mimeType"))}}
		}
		return true
	})
	switch {
	case len(made.Images) > 0:
		return made, nil
	case finishReason(p.finish) == provider.FinishContentFilter:
		return nil, missing("the provider blocked the image: " + p.finish)
	}
	return nil, wire.Malformed("the answer holds no image", nil)
}

// together joins the results of several calls. Usage counts at least the images, and tokens if each call reported them.
func together(answers []*provider.Images) *provider.Images {
	all := &provider.Images{Usage: &provider.Usage{}, Model: answers[0].Model}
	reported := true
	for _, one := range answers {
		all.Images = append(all.Images, one.Images...)
		if one.Usage.Reported() == nil {
			reported = false
			continue
		}
		all.Usage.Input += one.Usage.Input
		all.Usage.CacheRead += one.Usage.CacheRead
		all.Usage.ImageInput += one.Usage.ImageInput
		all.Usage.Output += one.Usage.Output
		all.Usage.Reasoning += one.Usage.Reasoning
		all.Usage.ImageOutput += one.Usage.ImageOutput
	}
	if !reported {
		all.Usage = &provider.Usage{}
	}
	all.Usage.Images = int64(len(all.Images))
	return all
}
