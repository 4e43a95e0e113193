package providertest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"image"
	_ "image/jpeg" // Registers a format of images.
	_ "image/png"  // Registers a format of images.
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// RunChatProvider checks a provider without a vendor: each of Chats is answered the same whole and streamed, many
// concurrently, and a call ends with its context.
func RunChatProvider(t *testing.T, p provider.ChatProvider, model string) {
	t.Helper()
	for name, chat := range Chats() {
		chat.Model = model
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "images" { // The suite's images are not decodable.
				chat.Messages[0].Content = chat.Messages[0].Content[:1]
			}
			want, err := p.Chat(t.Context(), Credential(), chat)
			if err != nil {
				t.Fatal(err)
			}
			Answers(t, p, chat, want)
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ended(t, func(ctx context.Context) error { return chatAs(ctx, p, model) })
	})
}

func chatAs(ctx context.Context, p provider.ChatProvider, model string) error {
	asked := question()
	asked.Model = model
	_, err := p.Chat(ctx, Credential(), asked)
	return err
}

// ended checks the error of a call whose context has ended.
func ended(t *testing.T, call func(ctx context.Context) error) {
	t.Helper()
	left := errors.New("the caller left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	err := call(ctx)
	if e := failure(t, err); e.Class != apierr.ClassTransient || !errors.Is(err, left) {
		t.Errorf("error = %v, want a transient one with the cause", e)
	}
}

// RunEmbedder checks a provider without a vendor: a vector for each input, in order, of the requested length, and the
// same for the same text or tokens.
func RunEmbedder(t *testing.T, p provider.Embedder, model string) {
	t.Helper()
	embed := func(t *testing.T, dimensions int, input ...string) [][]float32 {
		t.Helper()
		made, err := p.Embed(t.Context(), Credential(), &provider.Embedding{Model: model, Input: input, Dimensions: dimensions})
		if err != nil {
			t.Fatal(err)
		}
		if len(made.Vectors) != len(input) {
			t.Fatalf("%d vectors of %d", len(made.Vectors), len(input))
		}
		if made.Usage == nil || made.Usage.Input == 0 || made.Usage.Output != 0 {
			t.Fatalf("usage %+v, want input alone", made.Usage)
		}
		return made.Vectors
	}
	for _, dimensions := range []int{0, 1, 8, 1536} {
		t.Run(strconv.Itoa(dimensions), func(t *testing.T) {
			list := embed(t, dimensions, "one", "two", "one", "grüße")
			for _, vector := range list {
				if dimensions > 0 && len(vector) != dimensions || len(vector) != len(list[0]) {
					t.Errorf("a vector of %d numbers, the first has %d, want %d of all", len(vector), len(list[0]), dimensions)
				}
				if length := dot(vector, vector); math.Abs(length-1) > 1e-5 {
					t.Errorf("a vector with the length %v, want 1", length)
				}
			}
			if diff := cmp.Diff(list[0], list[2]); diff != "" {
				t.Errorf("the same text differs:\n%s", diff)
			}
			if diff := cmp.Diff(list[1], embed(t, dimensions, "two")[0]); diff != "" {
				t.Errorf("the same text differs from call to call:\n%s", diff)
			}
			if dimensions > 1 && math.Abs(dot(list[0], list[1])) > 0.99 {
				t.Error("different texts have one vector")
			}
		})
	}
	t.Run("tokens", func(t *testing.T) { embedsTokens(t, p, model) })
	t.Run("cancelled", func(t *testing.T) {
		ended(t, func(ctx context.Context) error {
			_, err := p.Embed(ctx, Credential(), &provider.Embedding{Model: model, Input: []string{"a"}})
			return err
		})
	})
}

// embedsTokens checks that each sequence has its vector, and that the usage is the number of tokens.
func embedsTokens(t *testing.T, p provider.Embedder, model string) {
	t.Helper()
	sequences := [][]int32{{1, 2}, {12}, {1, 2}, {2, 1}, {1}, {1, 2, 0}}
	made, err := p.Embed(t.Context(), Credential(), &provider.Embedding{Model: model, Tokens: sequences, Dimensions: 8})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&provider.Usage{Input: 11}, made.Usage); diff != "" || len(made.Vectors) != len(sequences) {
		t.Fatalf("%d vectors; usage (-want +got):\n%s", len(made.Vectors), diff)
	}
	for i, vector := range made.Vectors {
		if same := cmp.Equal(vector, made.Vectors[0]); same != (i == 0 || i == 2) || len(vector) != 8 {
			t.Errorf("tokens %v: %v", sequences[i], vector)
		}
	}
}

// RefusesTokens checks a provider whose dialect has no token input: tokens are refused before anything is sent.
func RefusesTokens(t *testing.T, p provider.Embedder) {
	t.Helper()
	_, err := p.Embed(t.Context(), Credential(), &provider.Embedding{Model: "m", Tokens: [][]int32{{1}}})
	if e := failure(t, err); !e.Unsupported || !strings.HasPrefix(e.Text, "input: ") {
		t.Errorf("error = %v, want unsupported", e)
	}
}

func dot(a, b []float32) float64 {
	var sum float64
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// RunImageMaker checks a provider without a vendor: as many images as requested, of the requested size, as bytes or as
// data: URIs.
func RunImageMaker(t *testing.T, p provider.ImageMaker, model string) {
	t.Helper()
	for name, d := range map[string]provider.ImageRequest{
		"plain": {Count: 1}, "several": {Count: 3, Size: "64x32", Format: "png", Delivery: "b64_json"},
		"jpeg": {Count: 1, Size: "40x40", Format: "jpeg"}, "url": {Count: 2, Size: "auto", Delivery: "url"},
	} {
		d.Model, d.Prompt = model, "a cat"
		t.Run(name, func(t *testing.T) {
			made, err := p.MakeImages(t.Context(), Credential(), &d)
			if err != nil {
				t.Fatal(err)
			}
			if len(made.Images) != d.Count || made.Usage == nil || made.Usage.Images != int64(d.Count) {
				t.Fatalf("%d images of %d, usage %+v", len(made.Images), d.Count, made.Usage)
			}
			for _, i := range made.Images {
				checkImage(t, d, i)
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ended(t, func(ctx context.Context) error {
			_, err := p.MakeImages(ctx, Credential(), &provider.ImageRequest{Model: model, Prompt: "a", Count: 1})
			return err
		})
	})
}

func checkImage(t *testing.T, d provider.ImageRequest, made provider.Image) {
	t.Helper()
	text, mediaType := made.Base64, made.MediaType
	if d.Delivery == "url" {
		head, rest, _ := strings.Cut(made.URL, ";base64,")
		text, mediaType = rest, strings.TrimPrefix(head, "data:")
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	picture, format, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if mediaType != "image/"+format || d.Format != "" && d.Format != format {
		t.Errorf("%s in a %s", format, mediaType)
	}
	if size := picture.Bounds().Size(); strings.Contains(d.Size, "x") && strconv.Itoa(size.X)+"x"+strconv.Itoa(size.Y) != d.Size {
		t.Errorf("size %v, want %s", size, d.Size)
	}
}
