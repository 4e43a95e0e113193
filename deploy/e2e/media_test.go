//go:build e2e

package e2e_test

import (
	"bytes"
	"encoding/base64"
	"image/png"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/deploy/dev/stack"
	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
)

const (
	embeddingsPath = "/v1/embeddings"
	visionPath     = "/v1/vision"
	imagesPath     = "/v1/images/generations"
)

// tiny is a complete PNG of one pixel, in base64.
const tiny = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// vectors is an answer to an embeddings request.
type vectors struct {
	Data []struct {
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	} `json:"data"`
	Usage *usage `json:"usage"`
	Model string `json:"model"`
}

// pictures is an answer to an image generation request.
type pictures struct {
	Data []struct {
		URL      string `json:"url"`
		Base64   string `json:"b64_json"`
		MimeType string `json:"mime_type"`
	} `json:"data"`
	Usage *usage `json:"usage"`
}

// addSameDialectPair adds two vendors of one dialect and model. Each has its own name for the model, so that a script
// can distinguish their calls.
func addSameDialectPair(model string) pair {
	return pair{
		first:  addVendor(vendor{name: model + "-first", dialect: "openai", model: model, upstream: model + "-1"}),
		second: addVendor(vendor{name: model + "-second", dialect: "openai", model: model, upstream: model + "-2"}),
	}
}

var (
	embedding     = addVendor(vendor{name: "embedding", dialect: "openai", model: "embedding"})
	visionVendors = []vendor{
		addVendor(vendor{name: "openai-eyes", dialect: "openai", model: "openai-eyes"}),
		addVendor(vendor{name: "anthropic-eyes", dialect: "anthropic", model: "anthropic-eyes"}),
	}
	inlineImageVendor = addVendor(vendor{name: "unsighted", dialect: "openai", model: "unsighted", noImageURLs: true})
	imageVendor       = addVendor(vendor{name: "painting", dialect: "openai", model: "gpt-image-e2e"})
	imageURLVendor    = addVendor(vendor{name: "linking", dialect: "openai", model: "dall-e-e2e"})
)

func TestEmbeddings(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	service := h.service(stack.Gateway, organization)
	body := object{"model": embedding.model, "input": []string{"one", "another", "one"}, "dimensions": 64}
	a := service.post(t, embeddingsPath, body)
	var got vectors
	a.into(t, http.StatusOK, &got)
	if len(got.Data) != 3 || got.Model != embedding.model {
		t.Fatalf("answer %s", shorten(a.body))
	}
	for i, v := range got.Data {
		var norm float64
		for _, x := range v.Embedding {
			norm += float64(x) * float64(x)
		}
		if v.Index != i || len(v.Embedding) != 64 || math.Abs(norm-1) > 1e-5 {
			t.Errorf("vector %d has index %d, length %d and norm %v", i, v.Index, len(v.Embedding), norm)
		}
	}
	if !slices.Equal(got.Data[0].Embedding, got.Data[2].Embedding) || slices.Equal(got.Data[0].Embedding, got.Data[1].Embedding) {
		t.Error("the vectors are not those of their texts")
	}
	want := usage{PromptTokens: 3, ProviderUsed: embedding.name, CostCents: cents(3, 0)}
	if got.Usage.RequestedProvider = ""; *got.Usage != want {
		t.Errorf("usage %+v, want %+v", *got.Usage, want)
	}

	reply, err := gatewayv1.NewInferenceServiceClient(h.grpc(t, stack.Gateway)).Embed(h.as(t, organization), &gatewayv1.EmbeddingsRequest{
		Model: embedding.model, Input: []byte(`["one","another","one"]`), Dimensions: new(int32(64)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range reply.GetData() {
		if !slices.Equal(v.GetEmbedding(), got.Data[i].Embedding) || int(v.GetIndex()) != i {
			t.Errorf("vector %d differs over gRPC", i)
		}
	}
	over := usageOf(reply.GetUsage())
	if over.RequestedProvider = ""; *over != want {
		t.Errorf("usage over gRPC %+v, want %+v", *over, want)
	}
}

var embeddingFaults = []struct {
	name   string
	action object
	models pair
}{
	{"a 503", object{"status": 503}, addSameDialectPair("embedding-unavailable")},
	{"a rate limit", object{"retry_after": "7"}, addSameDialectPair("embedding-limited")},
	{"a refused key", object{"status": 401}, addSameDialectPair("embedding-refused")},
	{"a vector too few", object{"status": 200, "headers": object{"Content-Type": "application/json"}, "body": `{"object":"list","data":[{"index":0,"embedding":[1]}],"usage":{"prompt_tokens":1,"total_tokens":1}}`}, addSameDialectPair("embedding-short")},
	{"an answer cut off", object{"after_bytes": 200}, addSameDialectPair("embedding-cut")},
}

// Another provider's embeddings of the same model are in the same vector space, so embeddings fail over. The answer
// names the provider that made them.
func TestEmbeddingsFailOver(t *testing.T) {
	t.Parallel()
	h := use(t)
	service := h.service(stack.Gateway, unique("org"))
	for _, tt := range embeddingFaults {
		t.Run(tt.name, func(t *testing.T) {
			h.script(t, stack.FakeProvider, rule{Match: tt.models.first.at(embeddingsPath), Action: tt.action})
			body := object{"model": tt.models.first.model, "provider": tt.models.first.name, "input": []string{"one", "another"}}
			var got vectors
			service.post(t, embeddingsPath, body).into(t, http.StatusOK, &got)
			u := got.Usage
			if len(got.Data) != 2 || got.Model != tt.models.first.model {
				t.Errorf("%d vectors of %s, want 2 of %s", len(got.Data), got.Model, tt.models.first.model)
			}
			want := *u
			want.ProviderUsed, want.RequestedProvider, want.Substituted = tt.models.second.name, tt.models.first.name, true
			same(t, want, *u)
			f := service.post(t, embeddingsPath, body.with(object{"allow_substitution": false})).refused(t, http.StatusBadGateway, "provider_failed", tt.models.first.name)
			if f.Class == "" {
				t.Errorf("the error has no class: %+v", f)
			}
		})
	}
}

func TestVision(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	service := h.service(stack.Gateway, organization)
	client := gatewayv1.NewInferenceServiceClient(h.grpc(t, stack.Gateway))
	for _, vision := range visionVendors {
		t.Run(vision.name, func(t *testing.T) {
			var got completion
			body := object{"model": vision.model, "prompt": "What is it?", "image": object{"base64": tiny}}
			service.post(t, visionPath, body).into(t, http.StatusOK, &got)
			if got.Content != "You said: What is it?" || got.FinishReason != "stop" {
				t.Errorf("%q ends with %q", got.Content, got.FinishReason)
			}
			if got.Usage.ProviderUsed != vision.name {
				t.Errorf("provider %q, want %s", got.Usage.ProviderUsed, vision.name)
			}
			if n := got.Usage.PromptTokens; n < 85 {
				t.Errorf("%d tokens asked, want those of an image: 85 or more", n)
			}
			calls := h.vendorCalls(t, vision)
			if len(calls) == 0 || !strings.Contains(calls[len(calls)-1].Body, tiny) || !strings.Contains(calls[len(calls)-1].Body, "image/png") {
				t.Errorf("the vendor got %+v", calls)
			}
			reply, err := client.DescribeImage(h.as(t, organization), &gatewayv1.VisionRequest{
				Model: vision.model, Prompt: "What is it?", Image: &gatewayv1.ImageRef{Base64: tiny, MimeType: "image/png"},
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got.Usage, usageOf(reply.GetUsage())); diff != "" || reply.GetContent() != got.Content {
				t.Errorf("%q (-http +grpc):\n%s", reply.GetContent(), diff)
			}
		})
	}
}

// A vendor that doesn't fetch images gets the bytes. The stack allows the gateway to fetch the fake's images, as
// GATEWAY_ALLOW_TARGETS does for development.
func TestImagesAreInlined(t *testing.T) {
	t.Parallel()
	h := use(t)
	service := h.service(stack.Gateway, unique("org"))
	link := h.FakeURL(stack.FakeProvider) + "/images/ff0000.png"
	var got completion
	service.post(t, visionPath, object{"model": inlineImageVendor.model, "prompt": "What is it?", "image": object{"url": link}}).into(t, http.StatusOK, &got)
	calls := h.vendorCalls(t, inlineImageVendor)
	if got.Content != "You said: What is it?" {
		t.Errorf("content %q", got.Content)
	}
	if len(calls) != 1 {
		t.Fatalf("%d calls of the vendor, want 1", len(calls))
	}
	if body := calls[0].Body; !strings.Contains(body, "data:image/png;base64,iVBOR") || strings.Contains(body, link) {
		t.Errorf("the vendor was sent %s, want the bytes of %s and not its URL", body, link)
	}
	service.post(t, visionPath, object{"model": inlineImageVendor.model, "prompt": "x", "image": object{"url": h.FakeURL(stack.FakeProvider) + "/v1/models"}}).
		refused(t, http.StatusBadRequest, "image_invalid", "image.url: the image's server answered with status 401")
}

// An image URL can't make the gateway call an address that only the gateway reaches, and data that is no image reaches
// no vendor.
func TestVisionRefusesImages(t *testing.T) {
	t.Parallel()
	h := use(t)
	service := h.service(stack.Gateway, unique("org"))
	vision := visionVendors[0]
	before := len(h.vendorCalls(t, vision))
	for _, tt := range []struct {
		image      object
		code, text string
	}{
		{object{}, "invalid_request", "image.url, image.base64"},
		{object{"url": "https://images.example/a.png", "base64": tiny}, "invalid_request", "image.url, image.base64"},
		{object{"url": "http://images.example/a.png"}, "target_not_allowed", "image.url"},
		{object{"url": h.FakeURL(stack.FakeWebhook) + "/a.png"}, "target_not_allowed", "image.url"},
		{object{"url": "https://127.0.0.1/a.png"}, "target_not_allowed", "image.url"},
		{object{"url": "https://[::1]/a.png"}, "target_not_allowed", "image.url"},
		{object{"url": "https://169.254.169.254/latest/meta-data/"}, "target_not_allowed", "image.url"},
		{object{"url": "https://10.0.0.1/a.png"}, "target_not_allowed", "image.url"},
		{object{"url": "https://2130706433/a.png"}, "target_not_allowed", "image.url"},
		{object{"url": "https://localhost/a.png"}, "target_not_allowed", "image.url"},
		{object{"url": "file:///etc/passwd"}, "target_not_allowed", "image.url"},
		{object{"base64": "aGVsbG8="}, "image_invalid", "image.base64"},
		{object{"base64": "???"}, "image_invalid", "image.base64"},
		{object{"base64": tiny, "mime_type": strings.Repeat("x", 129)}, "invalid_request", "image.mime_type"},
	} {
		a := service.post(t, visionPath, object{"model": vision.model, "prompt": "x", "image": tt.image})
		a.refused(t, http.StatusBadRequest, tt.code, tt.text)
	}
	a := service.post(t, chatPath, object{"model": vision.model, "messages": []object{{"role": "user", "content": []object{
		{"type": "image_url", "image_url": object{"url": "https://169.254.169.254/"}},
	}}}})
	a.refused(t, http.StatusBadRequest, "target_not_allowed", "messages[0].content[0].image_url.url")
	for _, call := range h.vendorCalls(t, vision)[before:] {
		if strings.Contains(call.Body, "169.254") || strings.Contains(call.Body, "127.0.0.1") {
			t.Errorf("the vendor was sent %s", call.Body)
		}
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	service := h.service(stack.Gateway, organization)
	var generated pictures
	service.post(t, imagesPath, object{"model": imageVendor.model, "prompt": "a switchyard at dawn", "n": 2}).into(t, http.StatusOK, &generated)
	if len(generated.Data) != 2 {
		t.Errorf("%d images, want 2", len(generated.Data))
	}
	want := *generated.Usage
	want.ProviderUsed, want.PromptTokens, want.CompletionTokens = imageVendor.name, 5, 2112
	same(t, want, *generated.Usage)
	for _, image := range generated.Data {
		data, err := base64.StdEncoding.DecodeString(image.Base64)
		if err != nil || image.MimeType != "image/png" || image.URL != "" {
			t.Fatalf("an image of %q, %v", image.MimeType, err)
		}
		if _, err := png.Decode(bytes.NewReader(data)); err != nil {
			t.Errorf("it is no PNG: %v", err)
		}
	}
	reply, err := gatewayv1.NewInferenceServiceClient(h.grpc(t, stack.Gateway)).GenerateImages(h.as(t, organization), &gatewayv1.ImagesRequest{
		Model: imageVendor.model, N: new(int32(2)), Messages: []*gatewayv1.ChatMessage{{Role: "user", Content: []byte(`"a switchyard at dawn"`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(generated.Usage, usageOf(reply.GetUsage())); diff != "" || len(reply.GetData()) != 2 || reply.GetData()[1].GetB64Json() != generated.Data[1].Base64 {
		t.Errorf("over gRPC (-http +grpc):\n%s", diff)
	}

	var linked pictures
	service.post(t, imagesPath, object{"model": imageURLVendor.model, "prompt": "a switchyard at dusk"}).into(t, http.StatusOK, &linked)
	if len(linked.Data) != 1 || !strings.HasPrefix(linked.Data[0].URL, h.FakeURL(stack.FakeProvider)) || linked.Data[0].Base64 != "" {
		t.Errorf("%+v, want a URL of the vendor's", linked.Data)
	}
	service.post(t, imagesPath, object{"model": imageURLVendor.model, "prompt": "x", "n": 11}).refused(t, http.StatusBadRequest, "invalid_request", "n")
	service.post(t, imagesPath, object{"model": imageURLVendor.model}).refused(t, http.StatusBadRequest, "invalid_request", "prompt, messages")
}

var imageFailover = addSameDialectPair("painting-unavailable")

func TestImagesFailOver(t *testing.T) {
	t.Parallel()
	h := use(t)
	service := h.service(stack.Gateway, unique("org"))
	h.script(t, stack.FakeProvider, rule{Match: imageFailover.first.at(imagesPath), Action: object{"status": 503}})
	body := object{"model": imageFailover.first.model, "provider": imageFailover.first.name, "prompt": "a switchyard"}
	var generated pictures
	service.post(t, imagesPath, body).into(t, http.StatusOK, &generated)
	if len(generated.Data) != 1 {
		t.Errorf("%d images, want 1", len(generated.Data))
	}
	want := *generated.Usage
	want.ProviderUsed, want.Substituted, want.RequestedProvider = imageFailover.second.name, true, imageFailover.first.name
	same(t, want, *generated.Usage)
	service.post(t, imagesPath, body.with(object{"allow_substitution": false})).refused(t, http.StatusBadGateway, "provider_failed", imageFailover.first.name)
}

// A system without any provider key serves all three operations.
func TestMediaSandbox(t *testing.T) {
	t.Parallel()
	service := use(t).service(stack.Gateway, unique("org"))
	for path, body := range map[string]object{
		embeddingsPath: {"model": "sandbox", "input": "one"},
		visionPath:     {"model": "sandbox", "prompt": "What is it?", "image": object{"base64": tiny}},
		imagesPath:     {"model": "sandbox", "prompt": "a switchyard"},
	} {
		var got struct {
			Usage *usage `json:"usage"`
		}
		service.post(t, path, body).into(t, http.StatusOK, &got)
		if got.Usage == nil || got.Usage.ProviderUsed != "sandbox" || got.Usage.Substituted {
			t.Errorf("%s: usage %+v", path, got.Usage)
		}
	}
}
