package api_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/visibility"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api"
)

// indexes matches the indexes in an error and everything behind the path.
var indexes = regexp.MustCompile(`\[[^]]*\]|[ :].*`)

// fieldsOf returns the paths of the fields that the JSON face has of a message and of its nested messages.
func fieldsOf(m protoreflect.MessageDescriptor, prefix string) (all []string) {
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		if proto.HasExtension(field.Options(), visibility.E_FieldVisibility) {
			continue // For gRPC callers only.
		}
		path := prefix + string(field.Name())
		all = append(all, path)
		if field.Message() != nil && !field.IsMap() {
			all = append(all, fieldsOf(field.Message(), path+".")...)
		}
	}
	return all
}

// Every field of every completion request has a case with its error; a new field needs one too.
func TestEveryFieldHasItsError(t *testing.T) {
	named := map[string][]string{}
	note := func(path string, texts ...string) {
		for _, text := range texts {
			for field := range strings.SplitSeq(text, ", ") { // "image.url, image.base64: …" names two.
				named[path] = append(named[path], indexes.ReplaceAllString(field, ""))
			}
		}
	}
	for _, c := range chatRefusals() {
		note(chatPath, c.text)
	}
	for _, text := range badJSON {
		note(chatPath, text)
	}
	for path, refusals := range map[string][]refusal{embeddingsPath: embeddingRefusals(), visionPath: visionRefusals(), imagesPath: imageRefusals()} {
		for _, c := range refusals {
			note(path, c.text)
		}
		for _, text := range mediaBadJSON[path] {
			note(path, text)
		}
	}
	// A conversation is decoded by the same code everywhere: its fields have their cases at the chat.
	shared := func(path, field string) bool {
		return path == imagesPath && strings.HasPrefix(field, "messages.") && slices.Contains(named[chatPath], field)
	}
	for path, m := range map[string]protoreflect.ProtoMessage{
		chatPath: &gatewayv1.LlmRequest{}, embeddingsPath: &gatewayv1.EmbeddingsRequest{},
		visionPath: &gatewayv1.VisionRequest{}, imagesPath: &gatewayv1.ImagesRequest{},
	} {
		for _, field := range fieldsOf(m.ProtoReflect().Descriptor(), "") {
			if !slices.Contains(named[path], field) && !shared(path, field) {
				t.Errorf("%s: no row has an error of the field %s", path, field)
			}
		}
	}
}

// So does every field of the extension, on both faces that have it, in their form.
func TestEveryExtensionFieldHasItsError(t *testing.T) {
	b := setup(t)
	wrong := map[string]struct{ value, text string }{
		"organization_id":     {`"a b"`, "organization_id: must be printable"},
		"provider":            {`"a b"`, "provider: "},
		"optimization_goal":   {`"fun"`, "optimization_goal: "},
		"byok":                {`{"mode":"maybe"}`, "byok.mode: "},
		"allow_substitution":  {`"no"`, "switchyard.allow_substitution: "},
		"data_classification": {`"-"`, "data_classification: "},
		"locale":              {`"f"`, "locale: "},
		"language_mode":       {`"force"`, "locale: is required"},
		"cache":               {`"maybe"`, "cache: "},
		"run_id":              {`"a b"`, "run_id: must be printable"},
		"approval_ref":        {`"` + strings.Repeat("r", 129) + `"`, "approval_ref: "},
		"metadata":            {`{"":"v"}`, "metadata"},
		"tags":                {`{"Team":"v"}`, "tags: a name must"},
		"api_key":             {`"x"`, "switchyard: unknown field"}, // Not one of them.
	}
	for _, field := range append(api.ExtensionFields(), "api_key") {
		row, ok := wrong[field]
		if !ok {
			t.Errorf("no row has an error of the field switchyard.%s", field)
			continue
		}
		for path, more := range map[string]string{completions: "", messagesPath: `"max_tokens":9,`} {
			got := b.post(t, path, `{"model":"first/ok","switchyard":{"`+field+`":`+row.value+`},`+more+messages+`}`)
			if got.status != 400 || !strings.Contains(got.body, row.text) {
				t.Errorf("%s, %s: %d %s, want 400 with %q", path, field, got.status, got.body, row.text)
			}
		}
	}
	if b.vendor.last() != "" || b.rows(t, "true") != 0 {
		t.Error("a refused request reached the vendor or the ledger")
	}
}
