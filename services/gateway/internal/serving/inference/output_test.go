package inference

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/gateway/internal/vendors/provider/gemini"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
)

// repeated is a vendor's stream that repeats one text. taken counts the bytes that were read of it.
type repeated struct {
	head, frame, rest string
	taken             int
}

func (r *repeated) RoundTrip(q *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, q.Body); err != nil {
		return nil, err
	}
	r.rest, r.taken = r.head, 0
	return &http.Response{
		StatusCode: http.StatusOK, Request: q, Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1, Body: r,
	}, nil
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.rest == "" {
		r.rest = r.frame
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	r.taken += n
	return n, nil
}

func (*repeated) Close() error { return nil }

// outputFields are the fields of each dialect that hold what a model writes or what comes with it: words are counted as
// text, with the fewest tokens that it can have; the others are bounded only by the size of the stream.
var outputFields = []struct {
	name, dialect string
	frame         string // W is replaced by a text of 990 bytes
	words         bool
}{
	{"content", "openai", `{"choices":[{"delta":{"content":"W"}}]}`, true},
	{"content in parts", "openai", `{"choices":[{"delta":{"content":[{"type":"text","text":"W"}]}}]}`, true},
	{"thinking in parts", "openai", `{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"W"}]}]}}]}`, true},
	{"content of another choice", "openai", `{"choices":[{"index":1,"delta":{"content":"W"}}]}`, true},
	{"refusal", "openai", `{"choices":[{"delta":{"refusal":"W"}}]}`, true},
	{"reasoning", "openai", `{"choices":[{"delta":{"reasoning":"W"}}]}`, true},
	{"reasoning_content", "openai", `{"choices":[{"delta":{"reasoning_content":"W"}}]}`, true},
	{"reasoning_details", "openai", `{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"W"}]}}]}`, true},
	{"a summary in reasoning_details", "openai", `{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.summary","summary":"W"}]}}]}`, true},
	{"function_call.arguments", "openai", `{"choices":[{"delta":{"function_call":{"arguments":"W"}}}]}`, true},
	{"function_call.name", "openai", `{"choices":[{"delta":{"function_call":{"name":"W"}}}]}`, true},
	{"tool_calls.function.arguments", "openai", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"W"}}]}}]}`, true},
	{"tool_calls.function.name", "openai", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"W"}}]}}]}`, false},
	{"tool_calls.custom.input", "openai", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"custom","custom":{"input":"W"}}]}}]}`, true},
	{"tool_calls.custom.name", "openai", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"custom","custom":{"name":"W"}}]}}]}`, true},
	{"audio.transcript", "openai", `{"choices":[{"delta":{"audio":{"id":"a","transcript":"W"}}}]}`, true},
	{"audio.data", "openai", `{"choices":[{"delta":{"audio":{"id":"a","data":"W"}}}]}`, false},
	{"annotations", "openai", `{"choices":[{"delta":{"annotations":[{"type":"url_citation","url_citation":{"title":"W"}}]}}]}`, false},
	{"logprobs", "openai", `{"choices":[{"delta":{},"logprobs":{"content":[{"token":"W","logprob":-1}]}}]}`, false},
	{"a field that is yet to come", "openai", `{"choices":[{"delta":{"dreams":"W"}}]}`, false},
	{"a member that is yet to come", "openai", `{"dreams":"W"}`, false},
	{"content after the end", "openai", `{"choices":[{"delta":{"content":"W"},"finish_reason":"stop"}]}`, true},
	{"text_delta", "anthropic", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"W"}}`, true},
	{"a block of text", "anthropic", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"W"}}`, true},
	{"thinking_delta", "anthropic", `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"W"}}`, true},
	{"a block of thinking", "anthropic", `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"W","signature":""}}`, true},
	{"redacted_thinking", "anthropic", `{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"W"}}`, false},
	{"signature_delta", "anthropic", `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"W"}}`, false},
	{"input_json_delta of a tool", "anthropic", `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"W"}}`, true},
	{"input_json_delta of the server's tool", "anthropic", `{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"W"}}`, true},
	{"compaction_delta", "anthropic", `{"type":"content_block_delta","index":0,"delta":{"type":"compaction_delta","content":"W"}}`, true},
	{"citations_delta", "anthropic", `{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"cited_text":"W"}}}`, false},
	{"a block that is yet to come", "anthropic", `{"type":"content_block_start","index":0,"content_block":{"type":"dream","text":"W"}}`, false},
	{"an event that is yet to come", "anthropic", `{"type":"dream","text":"W"}`, false},
	{"text", "gemini", `{"candidates":[{"content":{"parts":[{"text":"W"}]}}]}`, true},
	{"a thought", "gemini", `{"candidates":[{"content":{"parts":[{"text":"W","thought":true}]}}]}`, true},
	{"executableCode", "gemini", `{"candidates":[{"content":{"parts":[{"executableCode":{"language":"PYTHON","code":"W"}}]}}]}`, true},
	{"functionCall", "gemini", `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":"W"}}}]}}]}`, true},
	{"codeExecutionResult", "gemini", `{"candidates":[{"content":{"parts":[{"text":"x","codeExecutionResult":{"output":"W"}}]}}]}`, false},
	{"thoughtSignature", "gemini", `{"candidates":[{"content":{"parts":[{"text":"x","thoughtSignature":"W"}]}}]}`, false},
	{"inlineData", "gemini", `{"candidates":[{"content":{"parts":[{"text":"x","inlineData":{"data":"W"}}]}}]}`, false},
	{"groundingMetadata", "gemini", `{"candidates":[{"content":{"parts":[{"text":"x"}]},"groundingMetadata":{"searchEntryPoint":"W"}}]}`, false},
}

// heads come before the fields: the content that begins an answer and, of Anthropic, a call of the caller's tool.
var heads = map[string]string{
	"openai": `{"choices":[{"delta":{"content":"well"}}]}`,
	"anthropic": `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}` + "\n\n" +
		`data: {"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"b","name":"g","input":{}}}`,
	"gemini": `{"candidates":[{"content":{"parts":[{"text":"well"}]}}]}`,
}

func chatVendor(t *testing.T, dialect string, over http.RoundTripper) (vendor provider.Provider) {
	t.Helper()
	var err error
	switch dialect {
	case "openai":
		vendor, err = openai.New(provider.Settings{Name: "a", BaseURL: "http://vendor.example", Transport: over})
	case "anthropic":
		vendor, err = anthropic.New(provider.Settings{Name: "a", BaseURL: "http://vendor.example", Transport: over})
	case "gemini":
		vendor, err = gemini.New(provider.Settings{Name: "a", BaseURL: "http://vendor.example", Transport: over})
	}
	if err != nil {
		t.Fatal(err)
	}
	return vendor
}

// A stream that is endless in one field alone is cut, whichever field that is, and what arrived until then is billed.
func TestAStreamThatIsEndlessInOneFieldIsCut(t *testing.T) {
	words := strings.Repeat("some words ", 90)
	for _, f := range outputFields {
		t.Run(f.dialect+" "+f.name, func(t *testing.T) {
			over := &repeated{head: "data: " + heads[f.dialect] + "\n\n", frame: "data: " + strings.Replace(f.frame, "W", words, 1) + "\n\n"}
			b := setup(t, nil, &script{name: "a"})
			b.Fleet().Providers = map[string]provider.Provider{"a": chatVendor(t, f.dialect, over)}
			d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
			b.Admission = d
			r := request()
			r.Chat.MaxTokens = 100
			if f.dialect != "gemini" {
				r.Chat.Native = &provider.Native{Dialect: f.dialect, Body: []byte(`{"messages":[{"role":"user","content":"12345678"}],"max_tokens":100}`)}
			}
			_, err := serveRequest(t.Context(), b, r, true)
			if !errors.Is(err, errBeyondLimit) {
				t.Errorf("ended with %v", err)
			}
			if most := streamSpare + 101*streamToken + 1<<20; over.taken > most {
				t.Errorf("cut after %d bytes", over.taken)
			}
			if f.words && over.taken > 64<<10 {
				t.Errorf("cut after %d bytes of text", over.taken)
			}
			if len(b.ledger.entries) != 1 {
				t.Fatalf("%d rows", len(b.ledger.entries))
			}
			row := b.ledger.entries[0]
			if row.Outcome != ledger.OutcomeAborted {
				t.Errorf("billed as %s, want %s", row.Outcome, ledger.OutcomeAborted)
			}
			if row.Cost > d.reserved[row.ID] {
				t.Errorf("it costs %d, of %d reserved", row.Cost, d.reserved[row.ID])
			}
			if f.words && row.Usage.Output < 100 {
				t.Errorf("%d tokens of output, want at least 100", row.Usage.Output)
			}
		})
	}
}

// An honest answer is not cut: each token with everything that a vendor sends along.
func TestAnHonestStreamWithMuchBesideItIsNotCut(t *testing.T) {
	likely := strings.Repeat(`{"token":" representation","logprob":-12.345678,"bytes":[32,114,101,112,114,101,115,101,110,116,97,116,105,111,110]},`, 20)
	likely = strings.TrimSuffix(likely, ",")
	for name, frame := range map[string]string{
		"log probabilities": `{"choices":[{"delta":{"content":" word"},"logprobs":{"content":[{"token":" word","logprob":-1,"top_logprobs":[` + likely + `]}]}}]}`,
		"sound":             `{"choices":[{"delta":{"audio":{"id":"a","transcript":" w","data":"` + strings.Repeat("QUJD", 1600) + `"}}}]}`,
		"sources each time": `{"choices":[{"delta":{"content":" word"}}],"search_results":["` + strings.Repeat("x", 8000) + `"]}`,
		"names each time":   `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"` + strings.Repeat("n", 64) + `","arguments":" word"}}]}}]}`,
		"thinking twice":    `{"choices":[{"delta":{"reasoning":" word","reasoning_details":[{"type":"reasoning.text","text":" word","signature":"` + strings.Repeat("s", 2000) + `"}]}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			body := strings.Repeat("data: "+frame+"\n\n", 100) + `data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":100}}` + "\n\ndata: [DONE]\n\n"
			over := transport(func(*http.Request) string { return body })
			b := setup(t, nil, &script{name: "a"})
			b.Fleet().Providers = map[string]provider.Provider{"a": chatVendor(t, "openai", over)}
			b.Admission = &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
			r := request()
			r.Chat.MaxTokens = 100
			r.Chat.Native = &provider.Native{Dialect: "openai", Body: []byte(`{"messages":[{"role":"user","content":"12345678"}],"max_tokens":100}`)}
			if _, err := serveRequest(t.Context(), b, r, true); err != nil {
				t.Fatal(err)
			}
			if row := b.ledger.entries[0]; row.State != ledger.StateReported || row.Usage.Output != 100 {
				t.Errorf("%s, %d tokens", row.State, row.Usage.Output)
			}
		})
	}
}

// transport answers each request with a stream.
type transport func(r *http.Request) string

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1,
		Body: io.NopCloser(strings.NewReader(f(r))),
	}, nil
}

// A legacy function call begins an answer: it is not held until its end, and a caller who closes the stream pays for
// what arrived.
func TestALegacyFunctionCallBeginsAnAnswer(t *testing.T) {
	arguments := strings.Repeat("x", 400)
	over := transport(func(*http.Request) string {
		return `data: {"choices":[{"delta":{"role":"assistant","function_call":{"name":"f","arguments":"` + arguments + `"}}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"function_call":{"arguments":"` + arguments + `"}}}]}` + "\n\n"
	})
	b := setup(t, nil, &script{name: "a"})
	b.Fleet().Providers = map[string]provider.Provider{"a": chatVendor(t, "openai", over)}
	r := request()
	r.Chat.Native = &provider.Native{Dialect: "openai", Body: []byte(`{"messages":[{"role":"user","content":"12345678"}]}`)}
	s, err := b.StreamChat(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	event, err := s.Next()
	if err != nil || !strings.Contains(string(event.Native), arguments) {
		t.Errorf("%s, %v", event.Native, err)
	}
	s.Close()
	if row := b.ledger.entries[0]; row.State != ledger.StateEstimated || row.Usage.Output != 101 {
		t.Errorf("%s: %d tokens", row.State, row.Usage.Output)
	}
}
