package inference

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// named returns a bench whose vendor "a" has its model a-1 by the name upstream.
func named(tb testing.TB, upstream string, s *script) *bench {
	tb.Helper()
	s.name = "a"
	b := setup(tb, nil, s)
	b.Fleet().Planner = candidates{"a", []routing.Candidate{{Target: provider.Target{Provider: "a", Model: "a-1"}, Upstream: upstream}}}
	return b
}

func saying(text string) *Request {
	r := request()
	r.Chat.Messages[0].Content[0].Text = text
	return r
}

// A bill without a vendor's report has the tokens of a known vocabulary: "hello world" is 2 of them, and 11 bytes.
// Around the message are 4 tokens, and 3 before the answer.
func TestBillWithoutAReport(t *testing.T) {
	whole := provider.Answer{Text: "hello world", FinishReason: provider.FinishStop}
	pieces := []step{text("hel"), text("lo wor"), text("ld")}
	complete, reset := slices.Concat(pieces, []step{end(nil)}), step{err: errors.New("reset")}
	cut := slices.Concat(pieces, []step{reset})
	running := []step{{event: provider.Event{Text: "hello world", Usage: &provider.Usage{Input: 40, Output: 1}}}, reset}
	byBytes, byTokens := provider.Usage{Input: 3, Output: 3}, provider.Usage{Input: 2 + 7, Output: 2}
	for name, c := range map[string]struct {
		upstream string
		steps    []step // of a stream; nil for a whole answer
		outcome  ledger.Outcome
		state    ledger.State
		want     provider.Usage
	}{
		"unknown":         {"llama-3", nil, ledger.OutcomeCompleted, ledger.StateEstimated, byBytes},
		"unknown, stream": {"llama-3", complete, ledger.OutcomeCompleted, ledger.StateEstimated, byBytes},
		"unknown, cut":    {"llama-3", cut, ledger.OutcomeInterrupted, ledger.StateEstimated, byBytes},
		"o200k":           {"gpt-4o", nil, ledger.OutcomeCompleted, ledger.StateEstimated, byTokens},
		"o200k, stream":   {"openai/gpt-4o-mini", complete, ledger.OutcomeCompleted, ledger.StateEstimated, byTokens},
		"o200k, cut":      {"gpt-5.1", cut, ledger.OutcomeInterrupted, ledger.StateEstimated, byTokens},
		"cl100k":          {"gpt-4", nil, ledger.OutcomeCompleted, ledger.StateEstimated, byTokens},
		"cl100k, stream":  {"gpt-35-turbo", complete, ledger.OutcomeCompleted, ledger.StateEstimated, byTokens},
		"a running count": {"gpt-4o", running, ledger.OutcomeInterrupted, ledger.StatePartial, provider.Usage{Input: 40, Output: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			b := named(t, c.upstream, &script{answer: whole, steps: c.steps})
			report, err := serve(t, b, saying("hello world"), c.steps != nil)
			if (err == nil) != (c.outcome == ledger.OutcomeCompleted) {
				t.Fatal(err)
			}
			checkBilled(t, b, billedRow{"a", c.outcome, c.state, c.want})
			if row := b.ledger.entries[0]; !row.Estimated() || row.Cost == 0 || err == nil && !report.Estimated {
				t.Errorf("row %+v, report %+v; want a price, and that it is an estimate", row, report)
			}
		})
	}
}

// Reported input is billed up to the vocabulary's count plus a quarter and what vendors add. Without a vocabulary the
// bound is one token per byte.
func TestReportsAreBoundedByTheVocabulary(t *testing.T) {
	const absurd = 1_000_000
	long := strings.Repeat("hello world ", 400) // 800 tokens and a space.
	for name, c := range map[string]struct {
		upstream, text  string
		reported, input int64
		state           ledger.State
	}{
		"hello":                     {"gpt-4o", "hello", absurd, 5 + requestInput + messageInput, ledger.StatePartial},
		"hello, unknown vocabulary": {"llama-3", "hello", absurd, 5 + requestInput + messageInput, ledger.StatePartial},
		"long":                      {"gpt-4o", long, 4000, 808 + 202 + requestInput + messageInput, ledger.StatePartial},
		"long, within the margin":   {"gpt-4o", long, 1200, 1200, ledger.StateReported},
		"long, taken as it is":      {"gpt-4o", long, 1600, 808 + 202 + requestInput + messageInput, ledger.StateReported},
		"long, unknown vocabulary":  {"llama-3", long, 4000, 4000, ledger.StateReported},
		"long and absurd":           {"llama-3", long, absurd, 4800 + requestInput + messageInput, ledger.StatePartial},
	} {
		if c.state == ledger.StateReported {
			c.input = c.reported
		}
		for _, stream := range []bool{false, true} {
			reported := &provider.Usage{Input: c.reported, Output: absurd}
			if c.state == ledger.StateReported {
				reported.Output = 1
			}
			b := named(t, c.upstream, &script{
				answer: provider.Answer{Text: "hi", FinishReason: provider.FinishStop, Usage: reported}, steps: []step{text("hi"), end(reported)},
			})
			r := saying(c.text)
			r.Chat.MaxTokens = 64
			if _, err := serve(t, b, r, stream); err != nil {
				t.Fatal(err)
			}
			row := b.ledger.entries[0]
			if row.State != c.state || row.Usage.Input != c.input || row.Usage.Output > 64+choiceOutput {
				t.Errorf("%s, stream %t: %s, %+v, want %s with %d of input", name, stream, row.State, row.Usage, c.state, c.input)
			}
			if kept := row.Reported != nil && *row.Reported == *reported; kept != (c.state == ledger.StatePartial) {
				t.Errorf("%s, stream %t: %+v is kept of the report", name, stream, row.Reported)
			}
			if c.state == ledger.StatePartial && (!row.Estimated() || !strings.Contains(b.log.String(), "reports more than the request can use")) {
				t.Errorf("%s, stream %t: the excess is not marked, or not logged", name, stream)
			}
		}
	}
}

// A model that doesn't think sends all that it bills: at most a token for each byte, and a margin.
func TestReportedOutputIsBoundedByWhatArrived(t *testing.T) {
	const absurd, most = 16_000, 2 + toolsInput
	for name, c := range map[string]struct {
		upstream string
		lacks    policy.Feature
		bounds   Bounds
		want     int64
	}{
		"a model that doesn't think":       {"gpt-4o", policy.FeatureReasoning, Bounds{}, most},
		"a model that may think":           {"gpt-4o", 0, Bounds{}, absurd},
		"a model of an unknown vocabulary": {"llama-3", policy.FeatureReasoning, Bounds{}, absurd},
		"a prediction":                     {"gpt-4o", policy.FeatureReasoning, Bounds{Extra: 10}, absurd},
		"a vendor's own tool":              {"gpt-4o", policy.FeatureReasoning, Bounds{Surcharged: true}, absurd},
	} {
		for _, stream := range []bool{false, true} {
			reported := &provider.Usage{Input: 5, Output: absurd}
			b := named(t, c.upstream, &script{
				answer: provider.Answer{Text: "ok", FinishReason: provider.FinishStop, Usage: reported}, steps: []step{text("ok"), end(reported)},
			})
			r := saying("hello")
			r.Chat.MaxTokens = 20_000
			r.Bounds = c.bounds
			candidate := routing.Candidate{Target: provider.Target{Provider: "a", Model: "a-1"}, Upstream: c.upstream, Lacks: c.lacks}
			b.Fleet().Planner = candidates{"a", []routing.Candidate{candidate}}
			if _, err := serve(t, b, r, stream); err != nil {
				t.Fatal(err)
			}
			if row := b.ledger.entries[0]; row.Usage.Output != c.want {
				t.Errorf("%s, stream %t: %d tokens of output are billed, want %d", name, stream, row.Usage.Output, c.want)
			}
		}
	}
}

// The conversation of OpenAI's cookbook has 129 tokens for gpt-4 and 124 for gpt-4o, by its API.
func TestEstimateOfAPublishedConversation(t *testing.T) {
	r := &Request{}
	for _, m := range []struct{ name, text string }{
		{"", "You are a helpful, pattern-following assistant that translates corporate jargon into plain English."},
		{"example_user", "New synergies will help drive top-line growth."},
		{"example_assistant", "Things working well together will increase revenue."},
		{"example_user", "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage."},
		{"example_assistant", "Let's talk later when we're less busy about how to do better."},
		{"", "This late pivot means we don't have time to boil the ocean for the client deliverable."},
	} {
		r.Chat.Messages = append(r.Chat.Messages, provider.Message{Role: provider.RoleUser, Name: m.name, Content: []provider.Part{{Text: m.text}}})
	}
	for model, want := range map[string]int64{"gpt-4": 129, "gpt-3.5-turbo-0125": 129, "gpt-4o": 124, "gpt-4o-mini": 124} {
		r.Route.Model = model
		if got := EstimateInput(r); got != want {
			t.Errorf("%s: %d tokens, want %d", model, got, want)
		}
	}
}

// Each text of a request counts: each is "hello", a token in both vocabularies.
func TestEstimateCountsEachText(t *testing.T) {
	for name, c := range map[string]struct {
		request Request
		want    int64
	}{
		"nothing":      {Request{}, 0},
		"a message":    {Request{Chat: provider.Chat{Messages: []provider.Message{{Content: []provider.Part{{Text: "hello"}}}}}}, 3 + 4 + 1},
		"two parts":    {Request{Chat: provider.Chat{Messages: []provider.Message{{Content: []provider.Part{{Text: "hello"}, {Text: "hello"}}}}}}, 3 + 4 + 2},
		"an image":     {Request{Chat: provider.Chat{Messages: []provider.Message{{Content: []provider.Part{{ImageURL: "https://host/hello"}}}}}}, 3 + 4 + imageTokens},
		"a name":       {Request{Chat: provider.Chat{Messages: []provider.Message{{Name: "hello"}}}}, 3 + 4 + 2},
		"a call":       {Request{Chat: provider.Chat{Messages: []provider.Message{{ToolCalls: []provider.ToolCall{{Name: "hello", Arguments: "hello"}}}}}}, 3 + 4 + 2},
		"a tool":       {Request{Chat: provider.Chat{Tools: []provider.Tool{{Name: "hello", Description: "hello", Parameters: []byte("hello")}}}}, 3},
		"embeddings":   {Request{Embedding: provider.Embedding{Input: []string{"hello", "hello"}}}, 2},
		"token arrays": {Request{Embedding: provider.Embedding{Tokens: [][]int32{{1, 2}, {3}}}}, 3},
		"an image's":   {Request{ImageRequest: provider.ImageRequest{Prompt: "hello"}}, 1},
	} {
		for _, model := range []string{"gpt-4o", "text-embedding-3-small"} {
			c.request.Route.Model = model
			if got := EstimateInput(&c.request); got != c.want {
				t.Errorf("%s, %s: %d tokens, want %d", name, model, got, c.want)
			}
		}
	}
}

// What is not kept of an answer counts at the ratio of what is kept.
func TestTranscriptIsBounded(t *testing.T) {
	const word = "hello " // A token, like " hello".
	steps := make([]step, 0, 4*mostTranscript/(len(word)<<10)+2)
	for range cap(steps) - 1 {
		steps = append(steps, text(strings.Repeat(word, 1<<10)))
	}
	words := int64(len(steps)) << 10
	b := named(t, "gpt-4o", &script{steps: append(steps, end(nil))})
	r := request()
	r.Chat.MaxTokens = 1 << 20
	if _, err := serve(t, b, r, true); err != nil {
		t.Fatal(err)
	}
	if got := b.ledger.entries[0].Usage.Output; got < words || got > words*101/100 {
		t.Errorf("%d tokens, want %d or a few more", got, words)
	}
	kept := transcript{keeps: true}
	for range mostTranscript {
		kept.write(word)
	}
	if len(kept.text) != mostTranscript || cap(kept.text) != mostTranscript {
		t.Errorf("%d bytes are kept in %d, want %d", len(kept.text), cap(kept.text), mostTranscript)
	}
	var zero transcript
	if zero.write(word); zero.text != nil {
		t.Error("the zero value keeps text")
	}
}

// A transcript takes its memory from that for answers, and gives it back where another answer needs it.
func TestTranscriptIsGivenUpWhereMemoryIsShort(t *testing.T) {
	const limit = 8 << 10
	budget := memory.New(limit, 100)
	kept := transcript{keeps: true, hold: budget.Open("acme", 0)}
	kept.write("hello")
	if budget.Held() == 0 {
		t.Error("nothing is charged")
	}
	for range limit {
		kept.write("hello")
	}
	if kept.text != nil || kept.keeps || budget.Held() != 0 {
		t.Errorf("%d bytes are kept and %d charged, want none", len(kept.text), budget.Held())
	}
	b := named(t, "gpt-4o", &script{steps: append(slices.Repeat([]step{text("hello ")}, limit), end(nil))})
	b.Memory = budget
	if _, err := serve(t, b, request(), true); err != nil {
		t.Fatal(err)
	}
	if got, want := b.ledger.entries[0].Usage.Output, provider.Estimate(0, 6*limit).Output; got != want || budget.Held() != 0 {
		t.Errorf("%d tokens and %d bytes held, want %d by bytes and none", got, budget.Held(), want)
	}
}

// The thinking of a call that is given up before its answer began counts by the vocabulary, too.
func TestThinkingOfAGivenUpCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := named(t, "o3", &script{steps: []step{{event: provider.Event{Reasoning: "hello"}}, {event: provider.Event{Reasoning: " world"}}, {wait: time.Hour}}})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		if _, err := b.StreamChat(ctx, saying("hello world")); err == nil {
			t.Fatal("it is served")
		}
		checkBilled(t, b, billedRow{"a", ledger.OutcomeCancelled, ledger.StateEstimated, provider.Usage{Input: 9, Output: 2}})
	})
}

// Texts to embed count without what surrounds a message.
func TestVectorsWithoutAReport(t *testing.T) {
	b := chain(t, "a", [2]string{"text-embedding-3-small", "b-1"}, &embedder{name: "a", vectors: two(nil)}, &embedder{name: "b"})
	if _, err := b.Embed(t.Context(), embedRequest("hello world", "hello world")); err != nil {
		t.Fatal(err)
	}
	checkBilled(t, b, billedRow{"a", ledger.OutcomeCompleted, ledger.StateEstimated, provider.Usage{Input: 4}})
}

// A vocabulary takes memory and time to load: that happens for the first bill that needs it, not for an import or a
// report. The test is a process of its own, where no other test has loaded one.
func TestReportsLoadNoVocabulary(t *testing.T) {
	const variable = "SWITCHYARD_TEST_VOCABULARY"
	if os.Getenv(variable) == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.count=1")
		command.Env = append(os.Environ(), variable+"=1")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	const least = 3 << 20 // cl100k_base takes more.
	b := named(t, "gpt-4", &script{answer: good, steps: []step{text("yes"), end(used)}})
	before := inUse()
	for _, stream := range []bool{false, true} {
		if _, err := serve(t, b, request(), stream); err != nil {
			t.Fatal(err)
		}
	}
	if grown := inUse() - before; grown > least {
		t.Errorf("the heap has grown by %d bytes, want no vocabulary in memory", grown)
	}
	b.scripts["a"].answer.Usage = nil
	if _, err := serve(t, b, request(), false); err != nil {
		t.Fatal(err)
	}
	if grown := inUse() - before; grown < least {
		t.Errorf("the heap has grown by %d bytes, want a vocabulary in memory", grown)
	}
}

// inUse returns the bytes of the heap that are in use.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
