package provider

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"switchyard.dev/deploy/fakes/fault"
)

// The texts of every dialect are valid JSON with ordinary values in their placeholders: only a behaviour's values make
// an answer hostile.
func TestDialectTextsAreJSON(t *testing.T) {
	for name, dialect := range map[string]dialect{"openai": openAIDialect, "anthropic": anthropicDialect, "gemini": geminiDialect, "bedrock": bedrockDialect} {
		for _, calls := range [][]string{nil, {dialect.oneCall("0", "b")}, {dialect.oneCall("0", "b"), dialect.oneCall("1", "c")}} {
			if text := dialect.answer("hello", calls, dialect.count("1")); !json.Valid([]byte(text)) {
				t.Errorf("%s: no JSON: %s", name, text)
			}
		}
		stream := dialect.begin + dialect.textEvent("a") + strings.ReplaceAll(dialect.reasoning, "{text}", "b") +
			dialect.callEvent("0") + dialect.argumentsEvent("0", "c") + dialect.endEvents(dialect.count("1"))
		for line := range strings.Lines(stream) {
			data, found := strings.CutPrefix(strings.TrimSpace(line), "data: ")
			if found && data != "[DONE]" && !json.Valid([]byte(data)) {
				t.Errorf("%s: no JSON: %s", name, data)
			}
		}
	}
}

// Behaviours that report wrong usage and request many tool calls do so in the dialect of the request, whole and
// streamed.
func TestHostileAnswers(t *testing.T) {
	faces := map[string]struct {
		path   string
		header map[string]string
	}{
		"openai":    {"/v1/chat/completions", bearer},
		"anthropic": {"/v1/messages", anthropic},
		"gemini":    {"/v1beta/models/m:generateContent", goog},
		"converse":  {"/model/m/converse", bearer},
		"converses": {"/model/m/converse-stream", bearer},
	}
	wants := map[string]struct {
		text  string
		times int // least number of occurrences
	}{
		"usage_huge":                 {"999999999999", 3},
		"usage_infinite":             {"1e400", 3},
		"tool_calls_many":            {"look", hostileCalls},
		"tool_index_huge":            {"1000000000", 1},
		"tool_arguments_many_pieces": {"abcd", hostilePieces},
	}
	fake := New(fault.Script{})
	srv := httptest.NewServer(fake)
	defer srv.Close()
	for name, face := range faces {
		for behaviour, want := range wants {
			for _, stream := range []string{"false", "true"} {
				rec := do(t, fake, request{http.MethodPost, "/hostile/" + behaviour + face.path, `{"model":"m","stream":` + stream + `}`, face.header})
				if got := strings.Count(rec.Body.String(), want.text); rec.Code != http.StatusOK || got < want.times {
					t.Errorf("%s %s, streamed %s: %d, %q is there %d times, want %d", name, behaviour, stream, rec.Code, want.text, got, want.times)
				}
			}
		}
	}
}

// A behaviour of streams doesn't change other answers.
func TestStreamBehavioursLeaveWholeAnswers(t *testing.T) {
	const chat = `{"model":"m","messages":[{"role":"user","content":"one"}]}`
	fake := New(fault.Script{})
	want := do(t, fake, request{http.MethodPost, "/v1/chat/completions", chat, bearer}).Body.String()
	for _, b := range Behaviours() {
		if !b.StreamOnly {
			continue
		}
		if got := do(t, fake, request{http.MethodPost, "/hostile/" + b.Name + "/v1/chat/completions", chat, bearer}).Body.String(); got != want {
			t.Errorf("%s: %s, want %s", b.Name, got, want)
		}
	}
}

func TestCohereEmbeds(t *testing.T) {
	fake := New(fault.Script{})
	var answer cohereAnswer
	rec := do(t, fake, request{http.MethodPost, "/v2/embed", `{"model":"m","texts":["one","two"],"output_dimension":4}`, bearer})
	if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil || rec.Code != http.StatusOK {
		t.Fatalf("status %d, error %v", rec.Code, err)
	}
	if got := answer.Embeddings.Float; len(got) != 2 || len(got[0]) != 4 || answer.Meta.BilledUnits.InputTokens != 2 {
		t.Errorf("answer %+v", answer)
	}
	for body, status := range map[string]int{`{"model":"m","texts":[]}`: 400, `[`: 400} {
		if rec := do(t, fake, request{http.MethodPost, "/v2/embed", body, bearer}); rec.Code != status {
			t.Errorf("%s: status %d", body, rec.Code)
		}
	}
	if rec := do(t, fake, request{http.MethodPost, "/v2/embed", `{}`, nil}); rec.Code != http.StatusUnauthorized {
		t.Errorf("without a key: %d", rec.Code)
	}
}

// The documentation has every behaviour of the vendor, by name.
func TestBehavioursAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range Behaviours() {
		if !strings.Contains(string(text), "`"+b.Name+"`") {
			t.Errorf("%s (%s) is not in the README", b.Name, b.Effect)
		}
	}
}
