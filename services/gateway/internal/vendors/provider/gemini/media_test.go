package gemini_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/gemini"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/panics"
)

// asked is a request as the vendor receives it.
type asked struct {
	url  string
	body fields
}

// vendor answers each request with the result of answer.
func vendor(t *testing.T, answer func(asked) (int, string)) *gemini.Provider {
	t.Helper()
	over := providertest.Transport(func(r *http.Request) (*http.Response, error) {
		a := asked{url: r.URL.Path}
		if err := json.NewDecoder(r.Body).Decode(&a.body); err != nil {
			t.Error(err)
		}
		status, text := answer(a)
		return &http.Response{StatusCode: status, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(strings.NewReader(text))}, nil
	})
	p, err := gemini.New(provider.Settings{Name: "gemini", BaseURL: "http://vendor.example", Transport: over})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// vectorsOf answers each text, which is a number, with a vector of that number.
func vectorsOf(usage string) func(asked) (int, string) {
	return func(a asked) (int, string) {
		var values []string
		for _, one := range a.body["requests"].([]any) {
			part := one.(fields)["content"].(fields)["parts"].([]any)[0].(fields)
			values = append(values, fmt.Sprintf(`{"values": [%s, 0.25]}`, part["text"]))
		}
		return 200, `{"embeddings": [` + strings.Join(values, ",") + `]` + usage + `}`
	}
}

func numbers(n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = strconv.Itoa(i)
	}
	return texts
}

// A text document in a tool's result keeps its name, for which the vendor has no member.
func TestDocumentsInResults(t *testing.T) {
	for name, want := range map[string]string{"a.csv": "a.csv\n\na,b", "": "a,b"} {
		var sent string
		p := vendor(t, func(a asked) (int, string) {
			body, _ := json.Marshal(a.body) // It was read from JSON.
			sent = gjson.GetBytes(body, "contents.1.parts.0.functionResponse.response.output").Str
			return 500, "{}"
		})
		result := provider.Part{File: &provider.File{Name: name, URL: "data:text/csv;base64,YSxi"}}
		_, _ = p.Chat(t.Context(), providertest.Credential(), &provider.Chat{Model: "gemini-2.5-pro", Messages: []provider.Message{
			{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: "c", Name: "f", Arguments: "{}"}}},
			{Role: provider.RoleTool, ToolCallID: "c", Content: []provider.Part{result}},
		}})
		if sent != want {
			t.Errorf("%q: sent %q, want %q", name, sent, want)
		}
	}
}

// More texts than the vendor accepts at a time take several calls; the order is kept.
func TestEmbed(t *testing.T) {
	for n, calls := range map[int]int32{1: 1, 100: 1, 101: 2, 950: 10} {
		var count atomic.Int32
		answer := vectorsOf(`, "usageMetadata": {"promptTokenCount": 3}`)
		p := vendor(t, func(a asked) (int, string) {
			count.Add(1)
			return answer(a)
		})
		got, err := p.Embed(t.Context(), providertest.Credential(), &provider.Embedding{Model: "gemini-embedding-001", Input: numbers(n)})
		if err != nil {
			t.Fatal(err)
		}
		want := make([][]float32, n)
		for i := range want {
			want[i] = []float32{float32(i), 0.25}
		}
		if diff := cmp.Diff(want, got.Vectors); diff != "" || count.Load() != calls || *got.Usage != (provider.Usage{Input: int64(3 * calls)}) {
			t.Errorf("%d texts in %d calls, usage %+v (-want +got):\n%s", n, count.Load(), got.Usage, diff)
		}
	}
}

func TestEmbedRequest(t *testing.T) {
	p := vendor(t, func(a asked) (int, string) {
		want := asked{"/v1beta/models/gemini-embedding-001:batchEmbedContents", fields{"requests": []any{fields{
			"model": "models/gemini-embedding-001", "outputDimensionality": 2.0, "content": fields{"parts": []any{fields{"text": "0"}}},
		}}}}
		if diff := cmp.Diff(want, a, cmp.AllowUnexported(asked{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		return vectorsOf("")(a)
	})
	got, err := p.Embed(t.Context(), providertest.Credential(), &provider.Embedding{Model: "models/gemini-embedding-001", Input: numbers(1), Dimensions: 2})
	if err != nil || got.Usage != nil {
		t.Errorf("usage %+v, err %v; want none: the vendor reported none", got, err)
	}
}

func TestEmbedTokens(t *testing.T) {
	providertest.RefusesTokens(t, vendor(t, func(asked) (int, string) {
		t.Error("the vendor was asked")
		return 200, "{}"
	}))
}

// The usage of some calls is not the usage of all.
func TestEmbedUsageOfAll(t *testing.T) {
	p := vendor(t, func(a asked) (int, string) {
		usage := ""
		if len(a.body["requests"].([]any)) == 100 {
			usage = `, "usageMetadata": {"promptTokenCount": 3}`
		}
		return vectorsOf(usage)(a)
	})
	got, err := p.Embed(t.Context(), providertest.Credential(), &provider.Embedding{Input: numbers(101)})
	if err != nil || got.Usage != nil {
		t.Errorf("usage %+v, err %v", got.Usage, err)
	}
}

func TestEmbedFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		text   string
		want   apierr.Class
	}{
		"fewer vectors":    {200, `{"embeddings":[{"values":[1]}]}`, apierr.ClassServerError},
		"more vectors":     {200, `{"embeddings":[{"values":[1]},{"values":[1]},{"values":[1]}]}`, apierr.ClassServerError},
		"different length": {200, `{"embeddings":[{"values":[1]},{"values":[1,2]}]}`, apierr.ClassServerError},
		"empty vectors":    {200, `{"embeddings":[{"values":[]},{}]}`, apierr.ClassServerError},
		"no numbers":       {200, `{"embeddings":[{"values":["a"]},{"values":[null]}]}`, apierr.ClassServerError},
		"nothing":          {200, `{}`, apierr.ClassServerError},
		"not JSON":         {200, `<html>`, apierr.ClassServerError},
		"an error":         {200, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}`, apierr.ClassRateLimit},
		"a refusal":        {403, `{"error":{"code":403,"message":"no ` + providertest.Key + `"}}`, apierr.ClassAuth},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := vendor(t, func(asked) (int, string) { return tt.status, tt.text }).
				Embed(t.Context(), providertest.Credential(), &provider.Embedding{Input: numbers(2)})
			if e := providertest.ErrorOf(t, err); e.Class != tt.want || strings.Contains(e.Error(), providertest.Key) {
				t.Errorf("%v, want %s", e, tt.want)
			}
		})
	}
}

const imageAnswer = `{"candidates":[{"content":{"parts":[{"text":"Here."},{"inlineData":{"mimeType":"image/png","data":"ZHJhZnQ="},"thought":true},
 {"inlineData":{"mimeType":"image/png","data":"aW1hZ2U="}},
 {"inlineData":{"mimeType":"image/png","data":"ZHJhZnQ="},"thought":true}]},"finishReason":"STOP"}],"modelVersion":"gemini-2.5-flash-image",
 "usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1292,"totalTokenCount":1297,"candidatesTokensDetails":[{"modality":"IMAGE","tokenCount":1290}]}}`

// A Gemini model generates one image at a time, priced by tokens.
func TestDraw(t *testing.T) {
	var calls atomic.Int32
	p := vendor(t, func(a asked) (int, string) {
		calls.Add(1)
		want := asked{"/v1beta/models/gemini-2.5-flash-image:generateContent", fields{
			"contents":         []any{fields{"role": "user", "parts": []any{fields{"text": "a <cat>"}}}},
			"generationConfig": fields{"responseModalities": []any{"TEXT", "IMAGE"}, "imageConfig": fields{"aspectRatio": "1:1"}},
		}}
		if diff := cmp.Diff(want, a, cmp.AllowUnexported(asked{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		return 200, imageAnswer
	})
	got, err := p.MakeImages(t.Context(), providertest.Credential(), &provider.ImageRequest{
		Model: "gemini-2.5-flash-image", Prompt: "a <cat>", Count: 3, Size: "1024x1024", Format: "png", Delivery: "b64_json", Quality: "auto",
	})
	if err != nil {
		t.Fatal(err)
	}
	image := provider.Image{Base64: "aW1hZ2U=", MediaType: "image/png"}
	want := &provider.Images{
		Images: []provider.Image{image, image, image}, Model: "gemini-2.5-flash-image",
		Usage: &provider.Usage{Input: 15, Output: 6, ImageOutput: 3870, Images: 3},
	}
	if diff := cmp.Diff(want, got); diff != "" || calls.Load() != 3 {
		t.Errorf("%d calls (-want +got):\n%s", calls.Load(), diff)
	}
}

// An Imagen model generates all images at once, priced by the piece.
func TestPredict(t *testing.T) {
	p := vendor(t, func(a asked) (int, string) {
		want := asked{"/v1beta/models/imagen-4.0-generate-001:predict", fields{
			"instances":  []any{fields{"prompt": "a cat"}},
			"parameters": fields{"sampleCount": 2.0, "aspectRatio": "1:1", "sampleImageSize": "2K", "outputOptions": fields{"mimeType": "image/jpeg"}},
		}}
		if diff := cmp.Diff(want, a, cmp.AllowUnexported(asked{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		return 200, `{"predictions":[{"mimeType":"image/jpeg","bytesBase64Encoded":"YQ=="},{"bytesBase64Encoded":"Yg==","prompt":"a nicer cat"}]}`
	})
	got, err := p.MakeImages(t.Context(), providertest.Credential(), &provider.ImageRequest{
		Model: "imagen-4.0-generate-001", Prompt: "a cat", Count: 2, Size: "2048x2048", Format: "jpeg",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &provider.Images{Usage: &provider.Usage{Images: 2}, Images: []provider.Image{
		{Base64: "YQ==", MediaType: "image/jpeg"}, {Base64: "Yg==", MediaType: "image/png", RevisedPrompt: "a nicer cat"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestImageFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		model, text string
		want        apierr.Class
	}{
		"all filtered":        {"imagen-4.0", `{"predictions":[{"raiFilteredReason":"Unable to show generated images."}]}`, apierr.ClassContentPolicy},
		"some filtered":       {"imagen-4.0", `{"predictions":[{"bytesBase64Encoded":"YQ=="}]}`, apierr.ClassContentPolicy},
		"filtered in silence": {"imagen-4.0", `{}`, apierr.ClassContentPolicy},
		"an error":            {"imagen-4.0", `{"error":{"code":400,"status":"FAILED_PRECONDITION","message":"Imagen API is only accessible to billed users"}}`, apierr.ClassAuth},
		"blocked prompt":      {flash, `{"promptFeedback":{"blockReason":"SAFETY"}}`, apierr.ClassContentPolicy},
		"blocked image":       {flash, `{"candidates":[{"finishReason":"IMAGE_SAFETY"}]}`, apierr.ClassContentPolicy},
		"only words":          {flash, `{"candidates":[{"content":{"parts":[{"text":"No."}]},"finishReason":"STOP"}]}`, apierr.ClassServerError},
		"no image":            {flash, `{"candidates":[{"finishReason":"NO_IMAGE"}]}`, apierr.ClassServerError},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := vendor(t, func(asked) (int, string) { return 200, tt.text }).
				MakeImages(t.Context(), providertest.Credential(), &provider.ImageRequest{Model: tt.model, Count: 2})
			if e := providertest.ErrorOf(t, err); e.Class != tt.want || e.Text == "" {
				t.Errorf("%v, want %s", e, tt.want)
			}
		})
	}
}

// An image of another size or format than requested is an error.
func TestImageUnsupported(t *testing.T) {
	for field, d := range map[string]provider.ImageRequest{
		"size":            {Model: "gemini-2.5-flash-image", Size: "1024x1536"},
		"size: this":      {Model: "models/gemini-3-pro-image", Size: "1344x768"},
		"quality":         {Model: "imagen-4.0", Quality: "hd"},
		"output_format":   {Model: "imagen-4.0", Format: "webp"},
		"output_format: ": {Model: "gemini-2.5-flash-image", Format: "jpeg"},
		"response_format": {Model: "gemini-2.5-flash-image", Delivery: "url"},
	} {
		d.Count = 1
		_, err := vendor(t, func(asked) (int, string) { t.Error("it is sent"); return 500, "" }).MakeImages(t.Context(), provider.Credential{}, &d)
		if e := providertest.ErrorOf(t, err); !e.Unsupported || !strings.HasPrefix(e.Text, field) {
			t.Errorf("%s: %+v", field, e)
		}
	}
}

// BenchmarkChunk measures the cost of translating one chunk.
func BenchmarkChunk(b *testing.B) {
	frame := "data: " + providertest.JSON(fields{
		"candidates":    []fields{{"content": fields{"role": "model", "parts": []fields{{"text": "hello wor"}}}, "index": 0}},
		"usageMetadata": fields{"promptTokenCount": 5, "candidatesTokenCount": 7, "totalTokenCount": 12}, "modelVersion": flash, "responseId": "a",
	}) + "\n\n"
	stream := dialect().Endless(b, "", frame, false)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := stream.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEmbed reads ten vectors of 1536 numbers.
func BenchmarkEmbed(b *testing.B) {
	vector := "[" + strings.Repeat("-0.012345678,", 1535) + "0.1]"
	text := `{"embeddings":[` + strings.Repeat(`{"values":`+vector+`},`, 9) + `{"values":` + vector + `}]}`
	p := over(b, 200, "application/json", text)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Embed(b.Context(), provider.Credential{}, &provider.Embedding{Input: numbers(10)}); err != nil {
			b.Fatal(err)
		}
	}
}

// A panic in one of several concurrent calls is an error of the whole.
func TestPanicsInParallelCalls(t *testing.T) {
	p := vendor(t, func(asked) (int, string) { panic("bug") })
	for name, call := range map[string]func() error{
		"embeddings": func() error {
			_, err := p.Embed(t.Context(), provider.Credential{}, &provider.Embedding{Model: "m", Input: numbers(250)})
			return err
		},
		"images": func() error {
			_, err := p.MakeImages(t.Context(), provider.Credential{}, &provider.ImageRequest{Model: "gemini-x-image", Prompt: "p", Count: 3})
			return err
		},
	} {
		if e, ok := errors.AsType[*panics.Error](call()); !ok || len(e.Stack) == 0 {
			t.Errorf("%s: no panic with its stack", name)
		}
	}
}
