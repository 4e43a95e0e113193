package inference

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/content/token"
	"switchyard.dev/services/gateway/internal/money/ledger"
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
	cut := append(pieces[:3:3], step{err: errors.New("reset")})
	running := append([]step{{event: provider.Event{Text: "hello world", Usage: &provider.Usage{Input: 40, Output: 1}}}}, step{err: errors.New("reset")})
	byBytes, byTokens := provider.Usage{Input: 3, Output: 3}, provider.Usage{Input: 2 + 7, Output: 2}
	for name, c := range map[string]struct {
		upstream string
		script   script
		stream   bool
		outcome  ledger.Outcome
		state    ledger.State
		want     provider.Usage
	}{
		"unknown":         {"llama-3", script{answer: whole}, false, ledger.OutcomeCompleted, ledger.StateEstimated, byBytes},
		"unknown, stream": {"llama-3", script{steps: append(pieces, end(nil))}, true, ledger.OutcomeCompleted, ledger.StateEstimated, byBytes},
		"unknown, cut":    {"llama-3", script{steps: cut}, true, ledger.OutcomeInterrupted, ledger.StateEstimated, byBytes},
		"o200k":           {"gpt-4o", script{answer: whole}, false, ledger.OutcomeCompleted, ledger.StateEstimated, byTokens},
		"o200k, stream":   {"openai/gpt-4o-mini", script{steps: append(pieces, end(nil))}, true, ledger.OutcomeCompleted, ledger.StateEstimated, byTokens},
		"o200k, cut":      {"gpt-5.1", script{steps: cut}, true, ledger.OutcomeInterrupted, ledger.StateEstimated, byTokens},
		"cl100k":          {"gpt-4", script{answer: whole}, false, ledger.OutcomeCompleted, ledger.StateEstimated, byTokens},
		"cl100k, stream":  {"gpt-35-turbo", script{steps: append(pieces, end(nil))}, true, ledger.OutcomeCompleted, ledger.StateEstimated, byTokens},
		"a running count": {"gpt-4o", script{steps: running}, true, ledger.OutcomeInterrupted, ledger.StatePartial, provider.Usage{Input: 40, Output: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			b := named(t, c.upstream, &c.script)
			report, err := serve(t, b, saying("hello world"), c.stream)
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

// What is not kept of an answer counts like what is kept: beyond token.MostBytes, and where the memory is full.
func TestTranscriptIsBounded(t *testing.T) {
	const word = "hello " // A token, like " hello".
	long := make([]step, 0, 4*token.MostBytes/(len(word)<<10)+2)
	for range cap(long) - 1 {
		long = append(long, text(strings.Repeat(word, 1<<10)))
	}
	words := int64(len(long)) << 10
	for name, budget := range map[string]*memory.Budget{"size": nil, "memory": memory.New(100<<10, 100)} {
		b := named(t, "gpt-4o", &script{steps: append(long, end(nil))})
		b.Memory = budget
		r := request()
		r.Chat.MaxTokens = 1 << 20
		if _, err := serve(t, b, r, true); err != nil {
			t.Fatal(err)
		}
		if got := b.ledger.entries[0].Usage.Output; got < words || got > words*101/100 {
			t.Errorf("%s: %d tokens, want %d or a few more", name, got, words)
		}
		if budget != nil && budget.Held() != 0 {
			t.Errorf("%s: %d bytes are still held", name, budget.Held())
		}
	}
	full := transcript{keeps: true, hold: memory.New(1<<10, 100).Open("acme", 0)}
	for range 1 << 10 {
		full.write(word)
	}
	if n := len(full.text); n > 512 || full.keeps {
		t.Errorf("%d bytes are kept in 1 KiB, of which each counts twice", n)
	}
	var zero transcript
	if zero.write(word); zero.text != nil {
		t.Error("the zero value keeps text")
	}
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
