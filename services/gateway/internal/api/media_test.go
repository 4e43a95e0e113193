package api_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

const (
	embeddingsPath = "/v1/embeddings"
	visionPath     = "/v1/vision"
	imagesPath     = "/v1/images/generations"
)

// call sends a message to its method over gRPC.
func (b *bench) call(tb testing.TB, m proto.Message) (proto.Message, metadata.MD, error) {
	tb.Helper()
	client, md := b.client()
	ctx := metadata.NewOutgoingContext(tb.Context(), md)
	var header metadata.MD
	switch m := m.(type) {
	case *gatewayv1.EmbeddingsRequest:
		reply, err := client.Embed(ctx, m, grpc.Header(&header))
		return reply, header, err
	case *gatewayv1.VisionRequest:
		reply, err := client.DescribeImage(ctx, m, grpc.Header(&header))
		return reply, header, err
	case *gatewayv1.ImagesRequest:
		reply, err := client.GenerateImages(ctx, m, grpc.Header(&header))
		return reply, header, err
	}
	tb.Fatalf("no method takes a %T", m)
	return nil, nil, nil
}

// mediaRequests are in the form of both faces. {URL} is that of a picture.
func mediaRequests(picture string) []struct {
	name, path, body string
	grpc             proto.Message
} {
	allow, deny := new(true), new(false)
	image := &gatewayv1.ImageRef{Url: picture}
	inline := &gatewayv1.ImageRef{Base64: pngText}
	return []struct {
		name, path, body string
		grpc             proto.Message
	}{
		{"embed one", embeddingsPath, `{"model":"first/vectors","input":"hi"}`, &gatewayv1.EmbeddingsRequest{Model: "first/vectors", Input: []byte(`"hi"`)}},
		{"embed several", embeddingsPath, `{"model":"first/vectors","input":["a","b\u00e4"]}`, &gatewayv1.EmbeddingsRequest{Model: "first/vectors", Input: []byte(`["a","b\u00e4"]`)}},
		{"embed tokens", embeddingsPath, `{"model":"first/vectors","input":[11, 0 ,2147483647]}`, &gatewayv1.EmbeddingsRequest{Model: "first/vectors", Input: []byte(`[11,0,2147483647]`)}},
		{"embed several tokens", embeddingsPath, `{"model":"first/vectors","input":[[1,2],[3]]}`, &gatewayv1.EmbeddingsRequest{Model: "first/vectors", Input: []byte(`[[1,2],[3]]`)}},
		{"embed without usage", embeddingsPath, `{"model":"first/silent","input":"12345678"}`, &gatewayv1.EmbeddingsRequest{Model: "first/silent", Input: []byte(`"12345678"`)}},
		{
			"embed with every setting", embeddingsPath,
			`{"organization_id":"acme","model":"shared","provider":"third","input":["a"],"optimization_goal":"latency","byok":{"mode":"prefer"},"dimensions":2,"allow_substitution":true,"data_classification":"internal","metadata":{"k":"v"},"cache":"bypass","run_id":"r"}`,
			&gatewayv1.EmbeddingsRequest{
				OrganizationId: "acme", Model: "shared", Provider: "third", Input: []byte(`["a"]`), OptimizationGoal: "latency",
				Byok: &gatewayv1.ByokReference{Mode: "prefer"}, Dimensions: new(int32(2)), AllowSubstitution: allow,
				DataClassification: "internal", Metadata: map[string]string{"k": "v"}, Cache: "bypass", RunId: "r",
			},
		},
		{"vision by URL", visionPath, `{"model":"first/ok","prompt":"what","image":{"url":"` + picture + `"}}`, &gatewayv1.VisionRequest{Model: "first/ok", Prompt: "what", Image: image}},
		{"vision by URL of a vendor that fetches nothing", visionPath, `{"model":"eyes","prompt":"what","image":{"url":"` + picture + `"}}`, &gatewayv1.VisionRequest{Model: "eyes", Prompt: "what", Image: image}},
		{"vision by bytes", visionPath, `{"model":"first/ok","prompt":"what","image":{"base64":"` + pngText + `"}}`, &gatewayv1.VisionRequest{Model: "first/ok", Prompt: "what", Image: inline}},
		{
			"vision with every setting", visionPath,
			`{"organization_id":"acme","model":"ok","provider":"first","prompt":"what","image":{"base64":"` + pngText + `","mime_type":"image/png"},"optimization_goal":"cost","byok":{"mode":"prefer"},"allow_substitution":false,"data_classification":"internal","max_tokens":9,"metadata":{"k":"v"},"cache":"default","run_id":"r"}`,
			&gatewayv1.VisionRequest{
				OrganizationId: "acme", Model: "ok", Provider: "first", Prompt: "what", Image: &gatewayv1.ImageRef{Base64: pngText, MimeType: "image/png"},
				OptimizationGoal: "cost", Byok: &gatewayv1.ByokReference{Mode: "prefer"}, AllowSubstitution: deny,
				DataClassification: "internal", MaxTokens: new(int32(9)), Metadata: map[string]string{"k": "v"}, Cache: "default", RunId: "r",
			},
		},
		{"images by prompt", imagesPath, `{"model":"first/painter","prompt":"a cat"}`, &gatewayv1.ImagesRequest{Model: "first/painter", Prompt: "a cat"}},
		{
			"images by messages", imagesPath, `{"model":"first/painter","messages":[{"role":"system","content":"oil"},{"role":"user","content":[{"type":"text","text":"a cat"}]}]}`,
			&gatewayv1.ImagesRequest{Model: "first/painter", Messages: []*gatewayv1.ChatMessage{
				{Role: "system", Content: []byte(`"oil"`)}, {Role: "user", Content: []byte(`[{"type":"text","text":"a cat"}]`)},
			}},
		},
		{"images by URL", imagesPath, `{"model":"first/painter-by-url","prompt":"a cat"}`, &gatewayv1.ImagesRequest{Model: "first/painter-by-url", Prompt: "a cat"}},
		{
			"images with every setting", imagesPath,
			`{"organization_id":"acme","model":"painter","provider":"first","prompt":"a cat","n":2,"size":"1024x1536","quality":"high","response_format":"b64_json","output_format":"png","optimization_goal":"quality","byok":{"mode":"prefer"},"allow_substitution":false,"data_classification":"internal","metadata":{"k":"v"},"run_id":"r"}`,
			&gatewayv1.ImagesRequest{
				OrganizationId: "acme", Model: "painter", Provider: "first", Prompt: "a cat", N: new(int32(2)), Size: "1024x1536", Quality: "high",
				ResponseFormat: "b64_json", OutputFormat: "png", OptimizationGoal: "quality", Byok: &gatewayv1.ByokReference{Mode: "prefer"},
				AllowSubstitution: deny, DataClassification: "internal", Metadata: map[string]string{"k": "v"}, RunId: "r",
			},
		},
	}
}

// Both faces send the vendor the same request and return the same answer.
func TestMediaFacesAgree(t *testing.T) {
	b := setup(t)
	for _, c := range mediaRequests(b.vendor.URL + "/picture.png") {
		t.Run(c.name, func(t *testing.T) {
			overHTTP := b.post(t, c.path, c.body)
			sent := b.vendor.last()
			if overHTTP.status != 200 {
				t.Fatal(overHTTP.body)
			}
			reply, header, err := b.call(t, c.grpc)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sent, b.vendor.last()); diff != "" {
				t.Errorf("sent to the vendor (-http +grpc):\n%s", diff)
			}
			text, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(reply)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(contractOnly(object(t, overHTTP.body)), object(t, string(text))); diff != "" {
				t.Errorf("answer (-http +grpc):\n%s", diff)
			}
			for _, name := range []string{"X-Switchyard-Attempts", "X-Switchyard-Provider", "X-Switchyard-Model", "X-Request-Id"} {
				if got := strings.Join(header.Get(name), ""); got == "" || got != overHTTP.header.Get(name) {
					t.Errorf("%s = %q over gRPC, %q over HTTP", name, got, overHTTP.header.Get(name))
				}
			}
		})
	}
}

// contractOnly removes what the JSON face has only for OpenAI's clients.
func contractOnly(answer map[string]any) map[string]any {
	delete(answer, "object")
	delete(answer, "created")
	if usage, ok := answer["usage"].(map[string]any); ok {
		delete(usage, "total_tokens")
		if usage["requested_goal"] == nil { // Absent over gRPC.
			delete(usage, "requested_goal")
		}
	}
	items, _ := answer["data"].([]any)
	for _, item := range items {
		if item, ok := item.(map[string]any); ok {
			delete(item, "object")
		}
	}
	return answer
}

func TestEmbeddingsAnswer(t *testing.T) {
	b := setup(t)
	got := b.post(t, embeddingsPath, `{"model":"first/vectors","input":["a","b"],"optimization_goal":"cost"}`)
	want := `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1e-07]},{"object":"embedding","index":1,"embedding":[1.5,-1e-07]}],` +
		`"usage":{"prompt_tokens":8,"completion_tokens":0,"provider_used":"first","cost_cents":0.0024,"estimated":false,` +
		`"requested_provider":"first","requested_goal":"cost","substituted":false,"cache_hit":false,"model_used":"vectors","total_tokens":8},"model":"vectors","request_id":"req-test"}`
	if diff := cmp.Diff(want, requestedProvider(got.body)); diff != "" || got.status != 200 || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d (-want +got):\n%s", got.status, diff)
	}
	if n := b.rows(t, "operation = 'embeddings' AND input_tokens = 8 AND output_tokens = 0 AND cost_pico_usd = 24000000 AND usage_state = 'reported'"); n != 1 {
		t.Errorf("%d rows, want one", n)
	}
}

// requestedProvider is set only where another provider might have served, which depends on the policy.
func requestedProvider(body string) string {
	if strings.Contains(body, `"requested_provider"`) {
		return body
	}
	return strings.Replace(body, `"requested_goal"`, `"requested_provider":"first","requested_goal"`, 1)
}

func TestVisionAnswer(t *testing.T) {
	b := setup(t)
	for _, c := range []struct{ image, sent string }{
		{`{"url":"` + b.vendor.URL + `/picture.png"}`, b.vendor.URL + "/picture.png"},
		{`{"base64":"` + pngText + `"}`, "data:image/png;base64," + pngText},
		{`{"base64":"` + pngText + `","mime_type":"image/png"}`, "data:image/png;base64," + pngText},
		{`{"base64":"` + pngText + `","mime_type":"image/jpg"}`, "data:image/png;base64," + pngText},
		{`{"base64":"/9j/4AAQ"}`, "data:image/jpeg;base64,/9j/4AAQ"},
	} {
		got := b.post(t, visionPath, `{"model":"first/ok","prompt":"what is it","max_tokens":7,"image":`+c.image+`}`)
		var answer struct {
			Content      string
			FinishReason string `json:"finish_reason"`
			Model        string
			RequestID    string `json:"request_id"`
			Usage        struct {
				ProviderUsed string `json:"provider_used"`
			}
		}
		if err := json.Unmarshal([]byte(got.body), &answer); err != nil || got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		expected := answer
		expected.Content, expected.FinishReason, expected.Model = "hello <there> &", "stop", "ok"
		expected.RequestID, expected.Usage.ProviderUsed = "req-test", "first"
		if diff := cmp.Diff(expected, answer); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
		want := `[{"role":"user","content":[{"type":"text","text":"what is it"},{"type":"image_url","image_url":{"url":"` + c.sent + `"}}]}]`
		var sent struct {
			Messages json.RawMessage
		}
		if err := json.Unmarshal([]byte(b.vendor.last()), &sent); err != nil || string(sent.Messages) != want {
			t.Errorf("sent %s, want %s", sent.Messages, want)
		}
	}
	if n := b.rows(t, "operation = 'vision' AND usage_state = 'reported'"); n != 5 {
		t.Errorf("%d rows, want five", n)
	}
	// A vendor that does not fetch URLs is sent the bytes, on every face.
	link := b.vendor.URL + "/picture.png"
	for _, ask := range []func() answer{
		func() answer {
			return b.post(t, visionPath, `{"model":"eyes","prompt":"x","image":{"url":"`+link+`"}}`)
		},
		func() answer {
			part := `{"type":"image_url","image_url":{"url":"https://127.0.0.1:1/"}}`
			b.chat(t, `{"model":"eyes","messages":[{"role":"user","content":[`+part+`]}]}`).refused(t, 400, "target_not_allowed", "messages[0].content[0].image_url.url: is not allowed (port)")
			return b.post(t, visionPath, `{"model":"eyes","prompt":"x","image":{"url":"`+link+`"}}`)
		},
	} {
		if got := ask(); got.status != 200 || !strings.Contains(b.vendor.last(), `"url":"data:image/png;base64,`+pngText+`"`) {
			t.Errorf("%d %s, sent %s", got.status, got.body, b.vendor.last())
		}
	}
	b.post(t, visionPath, `{"model":"eyes","prompt":"x","image":{"url":"`+b.vendor.URL+`/nothing"}}`).refused(t, 400, "image_invalid", "image.url: the file is not a JPEG")
}

func TestImagesAnswer(t *testing.T) {
	b := setup(t)
	link, data := b.vendor.URL+"/picture.png", "data:image/png;base64,"+pngText
	for _, c := range []struct{ body, want string }{
		{`"model":"first/painter"`, `{"b64_json":"` + pngText + `","mime_type":"image/png","revised_prompt":"better"}`},
		{`"model":"first/painter","response_format":"url"`, `{"url":"` + data + `","revised_prompt":"better"}`},
		{`"model":"first/painter-by-url"`, `{"url":"` + link + `"}`},
		{`"model":"first/painter-by-url","response_format":"b64_json"`, `{"b64_json":"` + pngText + `","mime_type":"image/png"}`},
	} {
		got := b.post(t, imagesPath, `{"prompt":"a cat","n":2,`+c.body+`}`)
		if want := `{"data":[` + c.want + "," + c.want + `],"usage":{"prompt_tokens":3,"completion_tokens":100,`; got.status != 200 || !strings.HasPrefix(got.body, want) {
			t.Errorf("%d %s, want %s", got.status, got.body, want)
		}
	}
	if n := b.rows(t, "operation = 'images' AND images = 2"); n != 4 {
		t.Errorf("%d rows, want four", n)
	}
	b.post(t, imagesPath, `{"model":"first/painter","messages":[{"role":"system","content":"oil"},{"role":"user","content":"a cat"}]}`)
	if sent := b.vendor.last(); !strings.Contains(sent, `"prompt":"oil\n\na cat"`) {
		t.Errorf("sent %s", sent)
	}
}

func TestMediaFailOver(t *testing.T) {
	b := setup(t)
	// The same model at another provider: the vectors can be compared, and the answer names the provider.
	got := b.post(t, embeddingsPath, `{"model":"shared","input":"x"}`)
	got.contains(t, 200, `"provider_used":"fourth"`, `"requested_provider":"third"`, `"substituted":true`, `"model_used":"shared"`)
	if attempts := got.header.Get("X-Switchyard-Attempts"); attempts != "2" {
		t.Errorf("%s attempts, want 2", attempts)
	}
	b.post(t, embeddingsPath, `{"model":"shared","input":"x","allow_substitution":false}`).refused(t, 502, "provider_failed", "third: status 500: down")
	b.post(t, imagesPath, `{"model":"first/down","prompt":"x","allow_substitution":false}`).refused(t, 502, "provider_failed", "first: status 500: down")
	b.post(t, visionPath, `{"model":"first/down","prompt":"x","image":{"base64":"`+pngText+`"},"allow_substitution":false}`).refused(t, 502, "provider_failed", "first: status 500: down")
	b.post(t, visionPath, `{"model":"first/busy","prompt":"x","image":{"base64":"`+pngText+`"},"allow_substitution":false}`).refused(t, 502, "provider_failed", "slow down")
	b.post(t, embeddingsPath, `{"model":"nobody","input":"x","allow_substitution":false}`).refused(t, 503, "missing_keys", "no provider configured (missing keys)")
	for path, body := range map[string]string{
		embeddingsPath: `{"model":"sandbox","input":"x","byok":{}}`,
		visionPath:     `{"model":"sandbox","prompt":"x","image":{"base64":"` + pngText + `"},"byok":{}}`,
		imagesPath:     `{"model":"sandbox","prompt":"x","byok":{}}`,
	} {
		b.post(t, path, body).refused(t, 503, "missing_keys", "no provider configured (missing keys)")
	}
	if n := b.rows(t, "true"); n != 1 {
		t.Errorf("%d rows, want one of the one answer", n)
	}
}

// A fresh system serves all operations without a key.
func TestSandboxServesMedia(t *testing.T) {
	b := setup(t)
	for path, body := range map[string]string{
		embeddingsPath: `{"model":"sandbox","input":["x","y"]}`,
		visionPath:     `{"model":"sandbox","prompt":"x","image":{"base64":"` + pngText + `"}}`,
		imagesPath:     `{"model":"sandbox","prompt":"x"}`,
	} {
		if got := b.post(t, path, body); got.status != 200 || !strings.Contains(got.body, `"provider_used":"sandbox"`) {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

func TestMediaIdentity(t *testing.T) {
	b := setup(t)
	bodies := map[string]string{
		embeddingsPath: `{"model":"first/vectors","input":"x"}`,
		visionPath:     `{"model":"first/ok","prompt":"x","image":{"base64":"` + pngText + `"}}`,
		imagesPath:     `{"model":"first/painter","prompt":"x"}`,
	}
	for path, body := range bodies {
		b.post(t, path, body, "Authorization", "").refused(t, 401, "unauthenticated", "token")
		b.post(t, path, body, "Authorization", "Bearer sup").refused(t, 403, "forbidden", "role")
		b.post(t, path, body, "X-Organization-Id", "").refused(t, 400, "invalid_request", "organization_id")
		b.post(t, path, `{"organization_id":"other",`+body[1:]).refused(t, 403, "organization_mismatch", "organization_id")
		b.post(t, path, `{"run_id":"r2",`+body[1:], "X-Run-Id", "r1").refused(t, 400, "identity_mismatch", "run_id")
		if got := b.post(t, path, body, "X-Run-Id", "r1", "X-Key-Id", "k1"); got.status != 200 {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if n := b.rows(t, "organization_id = 'acme' AND run_id = 'r1' AND key_id = 'k1'"); n != len(bodies) {
		t.Errorf("%d rows, want one for each", n)
	}
}

// Keys and images are only where they belong.
func TestMediaLeakNothing(t *testing.T) {
	b := setup(t)
	secretImage := base64.StdEncoding.EncodeToString([]byte(pngHead + "a face that nobody may see"))
	var texts []string
	for path, body := range map[string]string{
		embeddingsPath: `{"model":"first/vectors-down","input":"x"}`,
		visionPath:     `{"model":"first/down","prompt":"x","image":{"base64":"` + secretImage + `"}}`,
		imagesPath:     `{"model":"first/painter-down","prompt":"x"}`,
	} {
		got := b.post(t, path, body)
		texts = append(texts, got.body, fmt.Sprint(got.header))
	}
	texts = append(texts, b.post(t, visionPath, `{"model":"first/ok","prompt":"x","image":{"base64":"`+secretImage+`!"}}`).body)
	texts = append(texts, b.post(t, visionPath, `{"model":"first/ok","prompt":"x","image":{"base64":"`+secretImage+`","mime_type":"image/gif"}}`).body)
	rows := testkit.Value[string](t, b.pool, "SELECT coalesce(string_agg(l::text, ' '), '') FROM ledger_entry l")
	texts = append(texts, rows, b.log.String())
	testkit.NoLeak(t, canary, texts...)
	testkit.NoLeak(t, "a face that nobody may see", texts...)
	if !strings.Contains(b.log.String(), "[redacted]") {
		t.Error("the vendor's echo is not in the log at all: the test proves nothing")
	}
}

// A caller who leaves ends the upstream call.
func TestMediaEndWithTheirCaller(t *testing.T) {
	b := setup(t)
	client, md := b.client()
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(t.Context(), md))
	cancel()
	_, err := client.Embed(ctx, &gatewayv1.EmbeddingsRequest{Model: "first/vectors", Input: []byte(`"x"`)})
	if e := apierr.From(err); e == nil || e.Kind != apierr.KindCanceled || b.rows(t, "true") != 0 {
		t.Errorf("%v", err)
	}
}
