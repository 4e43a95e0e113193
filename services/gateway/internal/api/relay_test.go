package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/testkit"
)

// relayPolicy has two hosts of the same models, the first of which is down for the model "failing".
const relayPolicy = `
default_model: sandbox/sandbox
providers:
  - {name: sandbox, dialect: sandbox, models: [sandbox]}
  - name: first
    dialect: openai
    base_url: %[1]s
    key_file: first.key
    models:
      - {name: text, operations: [completions]}
      - {name: omni-moderation-latest, operations: [moderations]}
      - {name: voice, operations: [speech]}
      - {name: voice-cut, operations: [speech]}
      - {name: ear, operations: [transcriptions]}
      - {name: painter, operations: [images]}
      - {name: ranker, operations: [rerank]}
      - {name: failing, upstream: failing-down, operations: [rerank, transcriptions]}
  - {name: second, dialect: openai, base_url: %[1]s, key_file: first.key, models: [{name: failing, operations: [rerank, transcriptions]}]}
  - {name: third, dialect: cohere, base_url: %[1]s, key_file: first.key, models: [{name: rerank-v3.5, operations: [rerank]}]}
`

// relayVendor answers relayed calls as their APIs do.
func relayVendor(w http.ResponseWriter, r *http.Request) {
	say := func(kind, text string) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, text)
	}
	body, _ := io.ReadAll(r.Body)
	text := string(body)
	switch path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/v1"), "/v2"); {
	case strings.Contains(text, "failing-down"):
		http.Error(w, `{"error":{"message":"down","type":"server_error"}}`, http.StatusInternalServerError)
	case path == "/completions" && strings.Contains(text, `"stream":true`):
		say("text/event-stream", "data: {\"choices\":[{\"text\":\"hel\",\"finish_reason\":null}]}\n\n"+
			"data: {\"choices\":[{\"text\":\"lo\",\"finish_reason\":\"stop\"}]}\n\n"+
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}\n\ndata: [DONE]\n\n")
	case path == "/completions":
		say("application/json", `{"id":"c","object":"text_completion","choices":[{"text":"hello","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`)
	case path == "/moderations":
		say("application/json", `{"id":"m","model":"omni","results":[{"flagged":false}]}`)
	case path == "/audio/speech" && strings.Contains(text, "voice-cut"):
		w.Header().Set("Content-Type", "audio/mpeg")
		w.Header().Set("Content-Length", "4000")
		_, _ = w.Write(bytes.Repeat([]byte{0xff}, 1000))
	case path == "/audio/speech" && strings.Contains(text, `"stream_format":"sse"`):
		say("text/event-stream", "data: {\"type\":\"speech.audio.delta\",\"audio\":\"AAAA\"}\n\n"+
			"data: {\"type\":\"speech.audio.done\",\"usage\":{\"input_tokens\":4,\"output_tokens\":30,\"total_tokens\":34}}\n\n")
	case path == "/audio/speech":
		say("audio/mpeg", "\xff\xfbsound")
	case path == "/audio/transcriptions" && strings.Contains(text, "srt"):
		say("text/plain; charset=utf-8", "1\n00:00:00,000 --> 00:01:02,500\nhello\n")
	case path == "/audio/transcriptions" && strings.Contains(text, `name="stream"`):
		say("text/event-stream", "data: {\"type\":\"transcript.text.delta\",\"delta\":\"hello\"}\n\n"+
			"data: {\"type\":\"transcript.text.done\",\"text\":\"hello\",\"usage\":{\"type\":\"tokens\",\"input_tokens\":14,\"input_token_details\":{\"text_tokens\":0,\"audio_tokens\":14},\"output_tokens\":2,\"total_tokens\":16}}\n\n")
	case strings.HasPrefix(path, "/audio/"):
		say("application/json", `{"text":"hello","usage":{"type":"duration","seconds":7}}`)
	case strings.HasPrefix(path, "/images/"):
		say("application/json", `{"created":1,"data":[{"b64_json":"AAAA"}],"usage":{"input_tokens":10,"input_tokens_details":{"image_tokens":6,"text_tokens":4},"output_tokens":50,"total_tokens":60}}`)
	case path == "/rerank" && strings.HasPrefix(r.URL.Path, "/v2"):
		say("application/json", `{"id":"r","results":[{"index":1,"relevance_score":0.9}],"meta":{"billed_units":{"search_units":1}}}`)
	case path == "/rerank":
		say("application/json", `{"model":"ranker","usage":{"total_tokens":15},"results":[{"index":1,"relevance_score":0.9}]}`)
	default:
		http.NotFound(w, r)
	}
}

// form returns a form of fields, in pairs, with a file, and its media type.
func form(tb testing.TB, file string, fields ...string) (kind, body string) {
	tb.Helper()
	var text bytes.Buffer
	w := multipart.NewWriter(&text)
	for i := 0; i < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			tb.Fatal(err)
		}
	}
	part, err := w.CreateFormFile(file, "a.bin")
	if err == nil {
		_, err = part.Write(bytes.Repeat([]byte{0xff, 0}, 30_000)) // some 80 s at the least
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return w.FormDataContentType(), text.String()
}

func relayBench(t *testing.T) *bench {
	t.Helper()
	b := setupWith(t, relayPolicy)
	b.vendor.mu.Lock()
	b.vendor.fails = relayVendor
	b.vendor.mu.Unlock()
	return b
}

// Each call reaches a provider of its own dialect as it came, its answer comes back as it is, and what it used is billed.
func TestRelayedCalls(t *testing.T) {
	b := relayBench(t)
	transcription := func(fields ...string) (string, string) { return form(t, "file", append(fields, "model", "ear")...) }
	edit := func() (string, string) { return form(t, "image", "model", "painter", "prompt", "a hat") }
	for name, c := range map[string]struct {
		path, body string
		form       func() (string, string)
		want       string // of the answer
		usage      string // the buckets that are not 0
		estimated  bool
	}{
		"completion":                 {path: "/v1/completions", body: `{"model":"text","prompt":"say"}`, want: `"text":"hello"`, usage: "input=3 output=2"},
		"streamed completion":        {path: "/v1/completions", body: `{"model":"text","prompt":"say","stream":true}`, want: "data: [DONE]\n\n", usage: "input=3 output=2"},
		"moderation":                 {path: "/v1/moderations", body: `{"input":"12345678"}`, want: `"flagged":false`, usage: "input=3", estimated: true},
		"speech":                     {path: "/v1/audio/speech", body: `{"model":"voice","input":"grüße","voice":"alloy"}`, want: "\xff\xfbsound", usage: "input=2 audio_output=7 characters=5", estimated: true},
		"speech in events":           {path: "/v1/audio/speech", body: `{"model":"voice","input":"grüße","voice":"alloy","stream_format":"sse"}`, want: "speech.audio.done", usage: "input=4 audio_output=30 characters=5"},
		"transcription":              {path: "/v1/audio/transcriptions", form: func() (string, string) { return transcription() }, want: `"text":"hello"`, usage: "audio_seconds=7"},
		"transcription as subtitles": {path: "/v1/audio/transcriptions", form: func() (string, string) { return transcription("response_format", "srt") }, want: "-->", usage: "audio_seconds=63"},
		"streamed transcription":     {path: "/v1/audio/transcriptions", form: func() (string, string) { return transcription("stream", "true") }, want: "transcript.text.done", usage: "audio_input=14 output=2"},
		"translation":                {path: "/v1/audio/translations", form: func() (string, string) { return transcription() }, want: `"text":"hello"`, usage: "audio_seconds=7"},
		"edit of an image":           {path: "/v1/images/edits", form: edit, want: `"b64_json":"AAAA"`, usage: "input=4 image_input=6 image_output=50 images=1"},
		"edit by JSON":               {path: "/v1/images/edits", body: `{"model":"painter","prompt":"a hat","images":[{"image_url":"https://x.example/a.png"}]}`, want: `"b64_json":"AAAA"`, usage: "input=4 image_input=6 image_output=50 images=1"},
		"variation of an image":      {path: "/v1/images/variations", form: edit, want: `"b64_json":"AAAA"`, usage: "input=4 image_input=6 image_output=50 images=1"},
		"rerank":                     {path: "/v1/rerank", body: `{"model":"ranker","query":"q","documents":["a","b"]}`, want: `"relevance_score":0.9`, usage: "input=15 searches=1"},
		"rerank of Cohere":           {path: "/v2/rerank", body: `{"model":"rerank-v3.5","query":"q","documents":["a","b"]}`, want: `"search_units":1`, usage: "searches=1"},
		"failover":                   {path: "/v1/rerank", body: `{"model":"failing","query":"q","documents":["a","b"]}`, want: `"relevance_score":0.9`, usage: "input=15 searches=1"},
		"failover of a form":         {path: "/v1/audio/transcriptions", form: func() (string, string) { return form(t, "file", "model", "failing") }, want: `"text":"hello"`, usage: "audio_seconds=7"},
	} {
		t.Run(name, func(t *testing.T) {
			kind, body := "application/json", c.body
			if c.form != nil {
				kind, body = c.form()
			}
			id := strings.ReplaceAll(name, " ", "-")
			got := b.post(t, c.path, body, "Content-Type", kind, "X-Request-Id", id)
			if got.status != http.StatusOK || !strings.Contains(got.body, c.want) {
				t.Fatalf("%d %s, want %q", got.status, got.body, c.want)
			}
			row := b.record(t, id)
			if diff := cmp.Diff(c.usage, bucketsOf(row)); diff != "" {
				t.Errorf("billed (-want +got):\n%s", diff)
			}
			if estimated := row["usage_state"] == "estimated"; estimated != c.estimated {
				t.Errorf("usage_state %v, want estimated %t", row["usage_state"], c.estimated)
			}
		})
	}
}

// record returns the usage record of a request. Writes to other databases of the server hold the feed back.
func (b *bench) record(tb testing.TB, id string) (record map[string]any) {
	tb.Helper()
	testkit.Wait(tb, "the usage record of "+id, func() error {
		var page struct{ Records []map[string]any }
		if err := json.Unmarshal([]byte(b.get(tb, "/v1/usage?limit=200", "ops").body), &page); err != nil {
			return err
		}
		for _, row := range page.Records {
			if row["request_id"] == id {
				record = row
				return nil
			}
		}
		return errors.New("there is none")
	})
	return record
}

// bucketsOf returns the buckets of a usage record that are not 0.
func bucketsOf(row map[string]any) string {
	var all []string
	for _, name := range []string{
		"input_tokens", "image_input_tokens", "audio_input_tokens", "output_tokens", "audio_output_tokens", "image_output_tokens",
		"images", "characters", "audio_seconds", "searches",
	} {
		if n, ok := row[name].(float64); ok && n != 0 {
			all = append(all, fmt.Sprintf("%s=%v", strings.TrimSuffix(name, "_tokens"), n))
		}
	}
	return strings.Join(all, " ")
}

// What a vendor does not finish is not passed on as if it were whole.
func TestRelayedCallsThatFail(t *testing.T) {
	b := relayBench(t)
	response := b.openAt(t.Context(), t, "/v1/audio/speech", `{"model":"voice-cut","input":"hello","voice":"alloy"}`, "X-Request-Id", "cut")
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("an answer that broke off came as %d bytes without an error", len(body))
	}
	if row := b.record(t, "cut"); row["outcome"] != "interrupted" || row["characters"] != 5.0 {
		t.Errorf("outcome %v and %v characters, want interrupted and 5", row["outcome"], row["characters"])
	}
}

// Bad calls are refused with their field, before any vendor is called.
func TestRelayedCallsAreChecked(t *testing.T) {
	b := relayBench(t)
	for name, c := range map[string]struct{ path, kind, body, want string }{
		"no model":               {"/v1/completions", "", `{"model":"ghost","prompt":"x"}`, "model"},
		"no prompts":             {"/v1/completions", "", `{"model":"text","prompt":[]}`, "prompt"},
		"choices":                {"/v1/completions", "", `{"model":"text","n":0}`, "n: "},
		"a name like a limit":    {"/v1/completions", "", `{"model":"text","maxTokens":9}`, "max_tokens"},
		"a name twice":           {"/v1/completions", "", `{"model":"text","n":1,"n":2}`, "twice"},
		"nothing to moderate":    {"/v1/moderations", "", `{}`, "input"},
		"nothing to speak":       {"/v1/audio/speech", "", `{"model":"voice","voice":"alloy"}`, "input"},
		"no form":                {"/v1/audio/transcriptions", "", `{"model":"ear"}`, "Content-Type"},
		"a form without a file":  {"/v1/audio/transcriptions", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\near\r\n--x--\r\n", "file"},
		"a form that breaks off": {"/v1/audio/transcriptions", "multipart/form-data; boundary=x", "--x\r\nContent-Dis", "body"},
		"a form on another path": {"/v1/moderations", "multipart/form-data; boundary=x", "--x\r\n\xff", "UTF-8"},
		"too many images":        {"/v1/images/edits", "", `{"model":"painter","prompt":"x","n":99}`, "n: "},
		"previews":               {"/v1/images/edits", "", `{"model":"painter","prompt":"x","partial_images":4}`, "partial_images"},
		"no documents":           {"/v1/rerank", "", `{"model":"ranker","query":"q","documents":[]}`, "documents"},
		"no query":               {"/v2/rerank", "", `{"model":"rerank-v3.5","documents":["a"]}`, "query"},
		"a host of another API":  {"/v2/rerank", "", `{"model":"first/ranker","query":"q","documents":["a"]}`, "cohere"},
		"another operation":      {"/v1/audio/speech", "", `{"model":"ranker","input":"x"}`, "operation"},
	} {
		t.Run(name, func(t *testing.T) {
			sent := b.vendor.count()
			got := b.post(t, c.path, c.body, "Content-Type", c.kind)
			if got.status < 400 || got.status >= 500 || !strings.Contains(got.body, c.want) {
				t.Errorf("%d %s, want an error of the caller with %q", got.status, got.body, c.want)
			}
			if b.vendor.count() != sent {
				t.Error("a vendor was called")
			}
		})
	}
}

// A captured call with a JSON body can be made again; one with files can't.
func TestRelayedCallsAreReplayed(t *testing.T) {
	b := relayBench(t)
	b.post(t, "/v1/rerank", `{"model":"ranker","query":"q","documents":["a","b"]}`, "X-Request-Id", "once")
	kind, body := form(t, "file", "model", "ear")
	b.post(t, "/v1/audio/transcriptions", body, "Content-Type", kind, "X-Request-Id", "file")
	b.recorded(t, "once", 1)
	b.recorded(t, "file", 1)
	again := b.say(t, http.MethodPost, "/v1/replay/once", `{}`, "X-Request-Id", "twice")
	packet := b.get(t, "/v1/replay/once", "svc", "X-Organization-Id", "acme").fields(t, 200)
	if answer, _ := packet["response"].(fields); answer["model"] != "ranker" {
		t.Errorf("the captured answer is %v, want the vendor's", packet["response"])
	}
	if again.status != http.StatusOK || !strings.Contains(again.body, "relevance_score") {
		t.Errorf("%d %s, want the answer", again.status, again.body)
	}
	if again := b.say(t, http.MethodPost, "/v1/replay/file", `{}`, "X-Request-Id", "thrice"); again.status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s, want 422: the file is not kept", again.status, again.body)
	}
}

// An OpenAI SDK's plain request for images may be served by any provider, and has the time that its client expects.
func TestPlainImagesOfOpenAI(t *testing.T) {
	b := relayBench(t)
	got := b.post(t, imagesPath, `{"model":"sandbox","prompt":"a cat","user":"ann"}`, "X-Switchyard-Dialect", "openai")
	if answer := object(t, got.body); got.status != 200 || answer["created"] == nil || len(answer["data"].([]any)) != 1 {
		t.Errorf("%d %.200s, want an image and when it was created", got.status, got.body)
	}
	if plain := b.post(t, imagesPath, `{"model":"sandbox","prompt":"a cat","user":"ann"}`); plain.status != 400 {
		t.Errorf("%d: the contract has no field user", plain.status)
	}
}
