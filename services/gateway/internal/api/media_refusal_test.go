package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/platform/apierr"
)

func embedding(change func(*gatewayv1.EmbeddingsRequest)) proto.Message {
	m := &gatewayv1.EmbeddingsRequest{Model: "first/vectors", Input: []byte(`"x"`)}
	change(m)
	return m
}

func vision(change func(*gatewayv1.VisionRequest)) proto.Message {
	m := &gatewayv1.VisionRequest{Model: "first/ok", Prompt: "x", Image: &gatewayv1.ImageRef{Base64: pngText}}
	change(m)
	return m
}

func imagesRequest(change func(*gatewayv1.ImagesRequest)) proto.Message {
	m := &gatewayv1.ImagesRequest{Model: "first/painter", Prompt: "x"}
	change(m)
	return m
}

// refusal has a field of a request that is wrong. body is the difference from a valid request; a null field is removed.
type refusal struct {
	body   string
	grpc   proto.Message
	text   string
	status int // 400 when zero
	reason apierr.Reason
}

func embeddingRefusals() []refusal {
	type request = gatewayv1.EmbeddingsRequest
	long := strings.Repeat("a", 600)
	many := `[` + strings.Repeat(`"a",`, 2048) + `"a"]`
	return []refusal{
		{body: `"model":null`, grpc: embedding(func(m *request) { m.Model = "" }), text: "model"},
		{body: `"model":"a b"`, grpc: embedding(func(m *request) { m.Model = "a b" }), text: "model: must be printable"},
		{body: `"model":"` + long + `"`, grpc: embedding(func(m *request) { m.Model = long }), text: "model"},
		{body: `"model":"no-such"`, grpc: embedding(func(m *request) { m.Model = "no-such" }), text: `"no-such"`, status: 404, reason: "model_not_found"},
		{body: `"input":null`, grpc: embedding(func(m *request) { m.Input = nil }), text: "input"},
		{body: `"input":""`, grpc: embedding(func(m *request) { m.Input = []byte(`""`) }), text: "input: must not be empty"},
		{body: `"input":[]`, grpc: embedding(func(m *request) { m.Input = []byte(`[]`) }), text: "input: must hold 1 to 2048 texts or token arrays"},
		{body: `"input":["a",""]`, grpc: embedding(func(m *request) { m.Input = []byte(`["a",""]`) }), text: "input[1]: must not be empty"},
		{body: `"input":["a",null]`, grpc: embedding(func(m *request) { m.Input = []byte(`["a",null]`) }), text: "input[1]: must be a string"},
		{body: `"input":["a",7]`, grpc: embedding(func(m *request) { m.Input = []byte(`["a",7]`) }), text: "input[1]: must be a string"},
		{body: `"input":[1,-2]`, grpc: embedding(func(m *request) { m.Input = []byte(`[1,-2]`) }), text: "input[1]: must be a token: a whole number from 0 to 2147483647"},
		{body: `"input":[[1],[]]`, grpc: embedding(func(m *request) { m.Input = []byte(`[[1],[]]`) }), text: "input[1]: must not be empty"},
		{
			body: `"model":"fifth/eyes","input":[1,2]`, text: "input: only the model that was named can read these tokens, and no provider of it takes token input; send texts: fifth/eyes (token_input)", reason: "capability_unsupported",
			grpc: embedding(func(m *request) { m.Model, m.Input = "fifth/eyes", []byte(`[1,2]`) }),
		},
		{body: `"input":{"a":1}`, grpc: embedding(func(m *request) { m.Input = []byte(`{"a":1}`) }), text: "input: must be a string, an array of strings, an array of tokens or an array of token arrays"},
		{body: `"input":7`, grpc: embedding(func(m *request) { m.Input = []byte(`7`) }), text: "input: must be a string, an array"},
		{body: `"input":` + many, grpc: embedding(func(m *request) { m.Input = []byte(many) }), text: "input: must hold 1 to 2048 texts"},
		{body: `"dimensions":0`, grpc: embedding(func(m *request) { m.Dimensions = new(int32(0)) }), text: "dimensions"},
		{body: `"dimensions":65537`, grpc: embedding(func(m *request) { m.Dimensions = new(int32(65537)) }), text: "dimensions"},
		{body: `"dimensions":7`, grpc: embedding(func(m *request) { m.Dimensions = new(int32(7)) }), text: "dimensions: "},
		{body: `"optimization_goal":"fun"`, grpc: embedding(func(m *request) { m.OptimizationGoal = "fun" }), text: "optimization_goal"},
		{body: `"byok":{"mode":"maybe"}`, grpc: embedding(func(m *request) { m.Byok = &gatewayv1.ByokReference{Mode: "maybe"} }), text: "byok.mode"},
		{body: `"provider":"a b"`, grpc: embedding(func(m *request) { m.Provider = "a b" }), text: "provider"},
		{body: `"byok":{"provider":"a b"}`, grpc: embedding(func(m *request) { m.Byok = &gatewayv1.ByokReference{Provider: "a b"} }), text: "byok.provider"},
		{body: `"provider":"nobody-there"`, grpc: embedding(func(m *request) { m.Provider = "nobody-there" }), text: `provider: no provider "nobody-there"`, reason: "provider_unknown"},
		{body: `"data_classification":"-"`, grpc: embedding(func(m *request) { m.DataClassification = "-" }), text: "data_classification"},
		{body: `"metadata":{"":"v"}`, grpc: embedding(func(m *request) { m.Metadata = map[string]string{"": "v"} }), text: "metadata"},
		{body: `"tags":{"Team":"v"}`, grpc: embedding(func(m *request) { m.Tags = map[string]string{"Team": "v"} }), text: "tags: a name must"},
		{body: `"cache":"maybe"`, grpc: embedding(func(m *request) { m.Cache = "maybe" }), text: "cache"},
		{body: `"run_id":"a b"`, grpc: embedding(func(m *request) { m.RunId = "a b" }), text: "run_id: must be printable"},
		{body: `"organization_id":"a b"`, grpc: embedding(func(m *request) { m.OrganizationId = "a b" }), text: "organization_id: must be printable"},
	}
}

func visionRefusals() []refusal {
	type request = gatewayv1.VisionRequest
	image := func(i *gatewayv1.ImageRef) proto.Message { return vision(func(m *request) { m.Image = i }) }
	long := strings.Repeat("a", 2100)
	return []refusal{
		{body: `"model":"a b"`, grpc: vision(func(m *request) { m.Model = "a b" }), text: "model: must be printable"},
		{body: `"model":"no-such"`, grpc: vision(func(m *request) { m.Model = "no-such" }), text: `"no-such"`, status: 404, reason: "model_not_found"},
		{body: `"prompt":null`, grpc: vision(func(m *request) { m.Prompt = "" }), text: "prompt"},
		{body: `"prompt":""`, grpc: vision(func(m *request) { m.Prompt = "" }), text: "prompt"},
		{body: `"image":null`, grpc: image(nil), text: "image: is required"},
		{body: `"image":{}`, grpc: image(&gatewayv1.ImageRef{}), text: "image.url, image.base64: exactly one of them is required"},
		{
			body: `"image":{"url":"https://images.example/a.png","base64":"` + pngText + `"}`,
			grpc: image(&gatewayv1.ImageRef{Url: "https://images.example/a.png", Base64: pngText}), text: "image.url, image.base64: exactly one of them is required",
		},
		{body: `"image":{"url":"` + long + `"}`, grpc: image(&gatewayv1.ImageRef{Url: long}), text: "image.url"},
		{body: `"image":{"url":"nonsense"}`, grpc: image(&gatewayv1.ImageRef{Url: "nonsense"}), text: "image.url: is not allowed", reason: "target_not_allowed"},
		{body: `"image":{"url":"http://images.example/a.png"}`, grpc: image(&gatewayv1.ImageRef{Url: "http://images.example/a.png"}), text: "image.url: is not allowed (scheme)", reason: "target_not_allowed"},
		{body: `"image":{"url":"https://127.0.0.1/a.png"}`, grpc: image(&gatewayv1.ImageRef{Url: "https://127.0.0.1/a.png"}), text: "image.url: is not allowed (address)", reason: "target_not_allowed"},
		{body: `"image":{"url":"https://169.254.169.254/latest"}`, grpc: image(&gatewayv1.ImageRef{Url: "https://169.254.169.254/latest"}), text: "image.url: is not allowed (address)", reason: "target_not_allowed"},
		{body: `"image":{"url":"https://localhost/a.png"}`, grpc: image(&gatewayv1.ImageRef{Url: "https://localhost/a.png"}), text: "image.url: is not allowed (local_name)", reason: "target_not_allowed"},
		{body: `"image":{"url":"data:image/png;base64,` + pngText + `"}`, grpc: image(&gatewayv1.ImageRef{Url: "data:image/png;base64," + pngText}), text: "image.url: must be an https URL"},
		{body: `"image":{"base64":"aGVsbG8="}`, grpc: image(&gatewayv1.ImageRef{Base64: "aGVsbG8="}), text: "image.base64: is not a JPEG, PNG, GIF or WebP image", reason: "image_invalid"},
		{body: `"image":{"base64":"***"}`, grpc: image(&gatewayv1.ImageRef{Base64: "***"}), text: "image.base64: must be base64", reason: "image_invalid"},
		{body: `"image":{"base64":"` + pngText + `","mime_type":"` + strings.Repeat("x", 129) + `"}`, grpc: image(&gatewayv1.ImageRef{Base64: pngText, MimeType: strings.Repeat("x", 129)}), text: "image.mime_type"},
		{body: `"max_tokens":0`, grpc: vision(func(m *request) { m.MaxTokens = new(int32(0)) }), text: "max_tokens"},
		{body: `"optimization_goal":"fun"`, grpc: vision(func(m *request) { m.OptimizationGoal = "fun" }), text: "optimization_goal"},
		{body: `"byok":{"mode":"maybe"}`, grpc: vision(func(m *request) { m.Byok = &gatewayv1.ByokReference{Mode: "maybe"} }), text: "byok.mode"},
		{body: `"byok":{"provider":"a b"}`, grpc: vision(func(m *request) { m.Byok = &gatewayv1.ByokReference{Provider: "a b"} }), text: "byok.provider"},
		{body: `"provider":"nobody-there"`, grpc: vision(func(m *request) { m.Provider = "nobody-there" }), text: `provider: no provider "nobody-there"`, reason: "provider_unknown"},
		{body: `"data_classification":"-"`, grpc: vision(func(m *request) { m.DataClassification = "-" }), text: "data_classification"},
		{body: `"metadata":{"":"v"}`, grpc: vision(func(m *request) { m.Metadata = map[string]string{"": "v"} }), text: "metadata"},
		{body: `"tags":{"Team":"v"}`, grpc: vision(func(m *request) { m.Tags = map[string]string{"Team": "v"} }), text: "tags: a name must"},
		{body: `"cache":"maybe"`, grpc: vision(func(m *request) { m.Cache = "maybe" }), text: "cache"},
		{body: `"run_id":"a b"`, grpc: vision(func(m *request) { m.RunId = "a b" }), text: "run_id: must be printable"},
		{body: `"organization_id":"a b"`, grpc: vision(func(m *request) { m.OrganizationId = "a b" }), text: "organization_id: must be printable"},
	}
}

func imageRefusals() []refusal {
	type request = gatewayv1.ImagesRequest
	say := func(role, content string) proto.Message {
		return imagesRequest(func(m *request) {
			m.Prompt, m.Messages = "", []*gatewayv1.ChatMessage{{Role: role, Content: []byte(content)}}
		})
	}
	const noPrompt = `"prompt":null,`
	picture := `[{"type":"image_url","image_url":{"url":"https://images.example/a.png"}}]`
	long := strings.Repeat("a", 33000)
	return []refusal{
		{body: `"prompt":null`, grpc: imagesRequest(func(m *request) { m.Prompt = "" }), text: "prompt, messages: exactly one of them is required"},
		{body: `"messages":[{"role":"user","content":"x"}]`, grpc: imagesRequest(func(m *request) { m.Messages = user("x") }), text: "prompt, messages: exactly one of them is required"},
		{body: `"prompt":"` + long + `"`, grpc: imagesRequest(func(m *request) { m.Prompt = long }), text: "prompt"},
		{body: noPrompt + `"messages":[{"role":"robot","content":"x"}]`, grpc: say("robot", `"x"`), text: "messages[0].role"},
		{body: noPrompt + `"messages":[{"role":"assistant","content":"x"}]`, grpc: say("assistant", `"x"`), text: "messages[0].role: must be system or user"},
		{body: noPrompt + `"messages":[{"role":"user","content":7}]`, grpc: say("user", "7"), text: "messages[0].content: must be a string or an array"},
		{body: noPrompt + `"messages":[{"role":"user","content":` + picture + `}]`, grpc: say("user", picture), text: "messages[0].content[0]: must be text"},
		{body: noPrompt + `"messages":[{"role":"user","content":" "}]`, grpc: say("user", `" "`), text: "messages: their texts must be 1 to 32768 bytes"},
		{body: noPrompt + `"messages":[{"role":"user","content":"` + long + `"}]`, grpc: say("user", `"`+long+`"`), text: "messages: their texts must be 1 to 32768 bytes"},
		{body: `"model":"a b"`, grpc: imagesRequest(func(m *request) { m.Model = "a b" }), text: "model: must be printable"},
		{body: `"model":"no-such"`, grpc: imagesRequest(func(m *request) { m.Model = "no-such" }), text: `"no-such"`, status: 404, reason: "model_not_found"},
		{body: `"n":0`, grpc: imagesRequest(func(m *request) { m.N = new(int32(0)) }), text: "n"},
		{body: `"n":11`, grpc: imagesRequest(func(m *request) { m.N = new(int32(11)) }), text: "n"},
		{body: `"size":"big"`, grpc: imagesRequest(func(m *request) { m.Size = "big" }), text: "size"},
		{body: `"size":"0x0"`, grpc: imagesRequest(func(m *request) { m.Size = "0x0" }), text: "size"},
		{body: `"quality":"best"`, grpc: imagesRequest(func(m *request) { m.Quality = "best" }), text: "quality"},
		{body: `"response_format":"bytes"`, grpc: imagesRequest(func(m *request) { m.ResponseFormat = "bytes" }), text: "response_format"},
		{body: `"output_format":"gif"`, grpc: imagesRequest(func(m *request) { m.OutputFormat = "gif" }), text: "output_format"},
		{body: `"optimization_goal":"fun"`, grpc: imagesRequest(func(m *request) { m.OptimizationGoal = "fun" }), text: "optimization_goal"},
		{body: `"byok":{"mode":"maybe"}`, grpc: imagesRequest(func(m *request) { m.Byok = &gatewayv1.ByokReference{Mode: "maybe"} }), text: "byok.mode"},
		{body: `"byok":{"provider":"a b"}`, grpc: imagesRequest(func(m *request) { m.Byok = &gatewayv1.ByokReference{Provider: "a b"} }), text: "byok.provider"},
		{body: `"provider":"nobody-there"`, grpc: imagesRequest(func(m *request) { m.Provider = "nobody-there" }), text: `provider: no provider "nobody-there"`, reason: "provider_unknown"},
		{body: `"data_classification":"-"`, grpc: imagesRequest(func(m *request) { m.DataClassification = "-" }), text: "data_classification"},
		{body: `"metadata":{"":"v"}`, grpc: imagesRequest(func(m *request) { m.Metadata = map[string]string{"": "v"} }), text: "metadata"},
		{body: `"tags":{"Team":"v"}`, grpc: imagesRequest(func(m *request) { m.Tags = map[string]string{"Team": "v"} }), text: "tags: a name must"},
		{body: `"run_id":"a b"`, grpc: imagesRequest(func(m *request) { m.RunId = "a b" }), text: "run_id: must be printable"},
		{body: `"organization_id":"a b"`, grpc: imagesRequest(func(m *request) { m.OrganizationId = "a b" }), text: "organization_id: must be printable"},
	}
}

// Both faces refuse the same requests with the same texts.
func TestMediaFacesRefuseTheSame(t *testing.T) {
	b := setup(t)
	for _, operation := range []struct {
		path     string
		fine     map[string]any
		refusals []refusal
	}{
		{embeddingsPath, map[string]any{"model": "first/vectors", "input": "x"}, embeddingRefusals()},
		{visionPath, map[string]any{"model": "first/ok", "prompt": "x", "image": map[string]any{"base64": pngText}}, visionRefusals()},
		{imagesPath, map[string]any{"model": "first/painter", "prompt": "x"}, imageRefusals()},
	} {
		for _, c := range operation.refusals {
			t.Run(operation.path+" "+c.text, func(t *testing.T) {
				status, reason := max(c.status, 400), c.reason
				if reason == "" {
					reason = apierr.ReasonInvalidRequest
				}
				document := b.post(t, operation.path, merge(t, operation.fine, c.body)).refused(t, status, string(reason), c.text)
				_, _, err := b.call(t, c.grpc)
				sameRefusal(t, err, status, document)
			})
		}
	}
	// Vectors of another length than requested have been generated and paid for.
	if b.rows(t, "operation <> 'embeddings' OR outcome <> 'aborted'") != 0 {
		t.Error("a refused request reached the ledger")
	}
}

// merge sets fields of a valid request.
func merge(t *testing.T, fine map[string]any, fields string) string {
	t.Helper()
	var over map[string]any
	if err := json.Unmarshal([]byte("{"+fields+"}"), &over); err != nil {
		t.Fatal(err)
	}
	body := make(map[string]any)
	for _, from := range []map[string]any{fine, over} {
		for name, value := range from {
			if body[name] = value; value == nil {
				delete(body, name)
			}
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Errors that only JSON can have, by path.
var mediaBadJSON = map[string]map[string]string{
	embeddingsPath: {
		``: "model", `{`: "body: invalid JSON", `[]`: "body: must be a JSON object", `{} {}`: "body: invalid JSON",
		`{"model":1,"input":"x"}`:                                         "model: must be a string",
		`{"model":"m","input":"x","byok":"mine"}`:                         "byok: must be an object",
		`{"model":"m","input":"x","allow_substitution":"no"}`:             "allow_substitution: must be true or false",
		`{"model":"m","input":"x","inputs":"y"}`:                          "inputs: unknown field",
		`{"model":"m","model":"n","input":"x"}`:                           "body: duplicate field",
		`{"model":"m","input":"x","dimensions":"two"}`:                    "dimensions: must be an integer",
		`{"model":"m","input":"x","byok":{"api_key":"` + canary + `"}}`:   "byok.api_key: unknown field",
		`{"model":"m","input":"x","optimization_goal":"cost","user":"u"}`: "user: unknown field",
	},
	visionPath: {
		``: "prompt", `{"prompt":1}`: "prompt: must be a string", `{"prompt":"x","image":"y"}`: "image: must be",
		`{"prompt":"x","byok":"mine"}`: "byok: must be an object", `{"prompt":"x","allow_substitution":"no"}`: "allow_substitution: must be true or false",
		`{"prompt":"x","image":{"uri":"y"}}`: "image.uri: unknown field", `{"prompt":"x","stream":true}`: "stream: unknown field",
	},
	imagesPath: {
		``: "prompt, messages", `{"prompt":1}`: "prompt: must be a string", `{"prompt":"x","n":true}`: "n: must be an integer",
		`{"prompt":"x","byok":"mine"}`: "byok: must be an object", `{"prompt":"x","allow_substitution":"no"}`: "allow_substitution: must be true or false",
		`{"prompt":"x","cache":"bypass"}`: "cache: unknown field", `{"messages":[{"role":"user","contents":"x"}]}`: "messages[0].contents: unknown field",
	},
}

func TestMediaBadJSON(t *testing.T) {
	b := setup(t)
	for path, bodies := range mediaBadJSON {
		for body, text := range bodies {
			got := b.post(t, path, body)
			got.refused(t, 400, "invalid_request", text)
			if strings.Contains(got.body, canary) || strings.Contains(b.log.String(), canary) {
				t.Errorf("%s is repeated", canary)
			}
		}
		b.post(t, path, `{"x":"`+strings.Repeat("a", 1<<20)+`"}`).refused(t, 413, "too_large", "body")
	}
}
