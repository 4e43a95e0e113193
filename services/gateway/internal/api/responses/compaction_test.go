package responses

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

const talk = `[{"role":"user","content":"build it"},
{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},
{"type":"function_call","call_id":"c1","name":"make","arguments":"{\"all\":true}"},
{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"done"}]},
{"type":"web_search_call","id":"ws_1"},
{"role":"assistant","content":"It is built."},
{"role":"user","content":"thanks"}]`

// A model is asked for a summary of the conversation as messages; the answer holds the user's messages and the summary,
// which a later request has in its place.
func TestCompaction(t *testing.T) {
	chat, compaction, err := ReadCompaction([]byte(`{"model":"m","instructions":"be brief","input":`+talk+`}`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	for _, m := range chat.Chat.Messages {
		asked = append(asked, string(m.Role)+": "+m.Text())
	}
	want := []string{
		"system: be brief", "user: build it", `user: The assistant called make: {"all":true}`, "user: The result of the call: done",
		"assistant: It is built.", "user: thanks", "user: " + summaryPrompt,
	}
	if got := strings.Join(asked, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the model is asked\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if chat.Model != "m" || chat.Stream || compaction.Stores() || chat.Stored || len(chat.Chat.Tools) != 0 {
		t.Errorf("model %q, streamed %t, stored %t; want m, neither", chat.Model, chat.Stream, compaction.Stores())
	}
	text, err := chat.Writer.Answer(dialect.Reply{}, &inference.Completion{Text: "All <is> built.", Report: ledger.Report{Prompt: 9, Completion: 4}})
	if err != nil {
		t.Fatal(err)
	}
	answer := gjson.ParseBytes(text)
	if answer.Get("object").Str != "response.compaction" || answer.Get("usage.total_tokens").Int() != 13 || answer.Get("output.#").Int() != 3 {
		t.Errorf("%s, want a response.compaction of three items and 13 tokens", text)
	}
	if first := answer.Get("output.0"); first.Get("type").Str != "message" || first.Get("id").Str == "" || first.Get("content.0.text").Str != "build it" {
		t.Errorf("the first item is %s, want the user's message as one of the vendor's", first.Raw)
	}
	later, exchange, err := Read([]byte(`{"input":`+answer.Get("output").Raw+`}`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := later.Chat.Messages[len(later.Chat.Messages)-1]
	if last.Text() != summaryHead+"All <is> built." || len(later.Chat.Messages) != 3 || later.Only != "" {
		t.Errorf("%d messages, the last %q, only for %q; want three, the summary, and any vendor", len(later.Chat.Messages), last.Text(), later.Only)
	}
	if strings.Contains(string(exchange.Body), "compaction") {
		t.Errorf("a vendor of the form gets %s, want the summary in place of the item", exchange.Body)
	}
}

// Only the last messages of the user are kept, and a compaction of another vendor stays that vendor's.
func TestCompactionBounds(t *testing.T) {
	long := `{"role":"user","content":"` + strings.Repeat("a", maxKept/2) + `"}`
	items := []json.RawMessage{[]byte(`{"role":"user","content":"first"}`), []byte(long), []byte(`{"role":"user","content":"last"}`)}
	if kept := ofUser(items); len(kept) != 3 {
		t.Errorf("%d messages are kept, want all three", len(kept))
	}
	if kept := ofUser(append(items, []byte(long))); len(kept) != 2 || !strings.Contains(string(kept[0]), "last") {
		t.Errorf("%d messages are kept, want the last two", len(kept))
	}
	chat, _, err := Read([]byte(`{"input":[{"role":"user","content":"a"},{"type":"compaction","encrypted_content":"vendors"}]}`), nil, nil)
	if err != nil || chat.Only == "" {
		t.Errorf("another vendor's compaction: %v, only for %q; want it for that vendor alone", err, chat.Only)
	}
	for body, want := range map[string]string{
		`{}`: "input", `{"input":[]}`: "input", `{"previous_response_id":"resp_1"}`: "previous_response_id", `{"input":7}`: "input",
	} {
		if _, _, err := ReadCompaction([]byte(body), nil, nil); err == nil || apierr.From(err).Kind != apierr.KindInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", body, err, want)
		}
	}
	if _, err := new(Compaction).Answer(dialect.Reply{}, &inference.Completion{}); err == nil {
		t.Error("an answer without a summary is passed on")
	}
}

// What a vendor's compaction stands for has bounds: beyond them the request is refused, and what can't be read leaves the
// item to its vendor.
func TestCompactionOfVendor(t *testing.T) {
	message := `{"role":"user","content":"` + strings.Repeat("a", 1<<20) + `"}`
	items := "[" + strings.Repeat(message+",", 6) + message + "]"
	compaction := func(content string) string { return `{"type":"compaction","encrypted_content":"` + content + `"}` }
	one := compaction(sealedBehind(items))
	chat, _, err := Read([]byte(`{"input":[`+one+`,`+one+`]}`), nil, nil)
	if err != nil || len(chat.Chat.Messages) != 14 || chat.Only != "" || chat.Compacted.Provider != "vendor" || chat.Compacted.Tokens < 2<<20 {
		t.Errorf("two compactions: %v, %d messages, only for %q, %+v; want 14 for any", err, len(chat.Chat.Messages), chat.Only, chat.Compacted)
	}
	_, _, err = Read([]byte(`{"input":[`+one+`,`+one+`,`+one+`]}`), nil, nil)
	if err == nil || apierr.From(err).Kind != apierr.KindInvalid || !strings.Contains(err.Error(), "input[2].encrypted_content") {
		t.Errorf("21 MiB behind compactions: %v, want an error that names the third", err)
	}
	for name, content := range map[string]string{
		"too much":         sealedBehind("[" + strings.Repeat(message+",", 8) + message + "]"),
		"no list":          sealedBehind(`{"role":"user","content":"a"}`),
		"no JSON":          sealedBehind(`[`),
		"too deep":         sealedBehind(strings.Repeat("[", 1e5) + strings.Repeat("]", 1e5)),
		"one in another":   sealedBehind("[" + compaction("theirs") + "]"),
		"not compressed":   strings.Split(sealedBehind("[]"), ".")[0] + ".AAAA",
		"nothing":          strings.Split(sealedBehind("[]"), ".")[0],
		"a size of 4 GiB":  strings.Split(sealedBehind("[]"), ".")[0] + "._____w8",
		"not even base64":  strings.Split(sealedBehind("[]"), ".")[0] + ".!",
		"a vendor's alone": "theirs",
	} {
		chat, _, err := Read([]byte(`{"input":[{"role":"user","content":"a"},`+compaction(content)+`]}`), nil, nil)
		if err != nil || chat.Only != "input[1].type" || len(chat.Chat.Messages) != 1 {
			t.Errorf("%s: %v, only for %q; want it for its vendor alone", name, err, chat.Only)
		}
	}
	_, _, err = Read([]byte(`{"input":[`+compaction(sealedBehind(`[{"role":"wizard","content":"a"}]`))+`]}`), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "input[0].role") {
		t.Errorf("%v, want an error of the item", err)
	}
}

// sealedBehind returns the content of a compaction of a vendor that stands for items.
func sealedBehind(items string) string {
	text := `{"sealed":{"provider":"vendor","account":"a","content":"theirs"}}`
	return sealMark + base64.RawURLEncoding.EncodeToString([]byte(text)) + "." + base64.RawURLEncoding.EncodeToString(s2.Encode(nil, []byte(items)))
}

func TestCompactionGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around(`{"input":`, growth.ValidJSON, "}"),
		growth.Repeat("messages", `{"input":[{"role":"user","content":"a"}`, `,{"role":"user","content":"a"}`, "]}"),
		growth.Repeat("results", `{"input":[{"role":"user","content":"a"}`, `,{"type":"function_call_output","output":[{"text":"a"}]}`, "]}"),
		growth.Repeat("compactions", `{"input":[{"role":"user","content":"a"}`, `,{"type":"compaction","encrypted_content":"`+sealSummary("a")+`"}`, "]}"),
		growth.Repeat("compactions of a vendor", `{"input":[{"role":"user","content":"a"}`, `,{"type":"compaction","encrypted_content":"`+sealedBehind(`[{"role":"user","content":"a"}]`)+`"}`, "]}"))
	growth.Linear(t, growth.Each(inputs, func(body []byte) {
		_, _, _ = ReadCompaction(body, nil, nil)
		_, _, _ = Read(body, nil, nil)
	})...)
}

func FuzzCompaction(f *testing.F) {
	f.Add([]byte(`{"input":` + talk + `}`))
	f.Add([]byte(`{"input":[{"type":"compaction","encrypted_content":"` + sealSummary("a") + `"}]}`))
	f.Add([]byte(`{"input":[{"type":"compaction","encrypted_content":"` + sealedBehind(talk) + `"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, _, err := ReadCompaction(body, nil, nil); err != nil && apierr.From(err).Kind == apierr.KindInternal {
			t.Errorf("%v is not an error of the caller", err)
		}
	})
}
