package inference

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/money/price/pricetest"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Usage that a vendor reports beyond what the request can use is not billed, however absurd, and the reservation covers
// what is billed.
func TestAbsurdReportsAreClamped(t *testing.T) {
	const absurd = 999_999_999_999
	for name, reported := range map[string]provider.Usage{
		"input":        {Input: absurd, Output: 1},
		"output":       {Input: 1, Output: absurd},
		"reasoning":    {Input: 1, Reasoning: absurd},
		"cache":        {CacheRead: absurd, CacheWrite: absurd, CacheWriteLong: absurd, Output: 1},
		"all":          {Input: math.MaxInt64, CacheRead: math.MaxInt64, Output: math.MaxInt64, Reasoning: math.MaxInt64},
		"images":       {Input: 1, Output: 1, Images: absurd},
		"other output": {Input: 1, ImageOutput: absurd, AudioOutput: absurd},
		// Thinking is counted separately here, so that the remaining output must be visible.
		"unseen text": {Input: 1, Reasoning: 1, Output: 2000},
	} {
		for _, stream := range []bool{false, true} {
			b := setup(t, nil, &script{
				name: "a", answer: provider.Answer{Text: "ok", FinishReason: provider.FinishStop, Usage: &reported}, steps: []step{text("ok"), end(&reported)},
			})
			d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
			b.Admission = d
			r := request()
			r.Chat.MaxTokens = 4000
			if _, err := serve(t, b, r, stream); err != nil {
				t.Fatal(err)
			}
			row := b.ledger.entries[0]
			if row.State != ledger.StatePartial {
				t.Errorf("%s, stream %t: state %s, want partial", name, stream, row.State)
			}
			if reserved := d.reserved[row.ID]; row.Cost > reserved {
				t.Errorf("%s, stream %t: billed %d, more than the %d set aside", name, stream, row.Cost, reserved)
			}
			if name == "unseen text" && row.Usage.Output > 2+toolsInput {
				t.Errorf("%d tokens of a text of two bytes are billed", row.Usage.Output)
			}
			if !strings.Contains(b.log.String(), "reports more than the request can use") {
				t.Errorf("%s, stream %t: nothing is logged", name, stream)
			}
		}
	}
}

// Whatever is reported, the billed usage is within the bound, no bucket is negative, and a report within the bound is
// unchanged.
func TestClamp(t *testing.T) {
	number := rapid.OneOf(rapid.Int64Range(-10, 2000), rapid.Int64())
	rapid.Check(t, func(t *rapid.T) {
		most := bound{Usage: provider.Usage{
			Input: rapid.Int64Range(0, 3000).Draw(t, "most input"), Output: rapid.Int64Range(0, 3000).Draw(t, "most output"),
			Images: rapid.Int64Range(0, 3).Draw(t, "most images"),
		}}
		u := provider.Usage{
			Input: number.Draw(t, "input"), CacheRead: number.Draw(t, "cached"), CacheWriteLong: number.Draw(t, "written"),
			Output: number.Draw(t, "output"), Reasoning: number.Draw(t, "reasoning"), Images: number.Draw(t, "images"),
		}
		reported := u
		beyond := most.clamp(&u, arrived{})
		if u.Prompt() > most.Input || u.Completion() > most.Output || u.Images > most.Images {
			t.Fatalf("%+v is beyond %+v", u, most.Usage)
		}
		for _, bucket := range provider.Buckets() {
			if n := *bucket.Of(&u); n < 0 {
				t.Fatalf("%s is negative: %d", bucket.Name(), n)
			}
		}
		if len(beyond) > 0 {
			return
		}
		type counts struct{ Input, Output, Images int64 }
		want := counts{max(reported.Input, 0), max(reported.Output, 0), max(reported.Images, 0)}
		if diff := cmp.Diff(want, counts{u.Input, u.Output, u.Images}); diff != "" {
			t.Fatalf("nothing is said to be beyond, but the usage changed (-want +got):\n%s", diff)
		}
	})
}

// A stream is cut where it exceeds its bound, whichever field set the bound and whatever the stream contains.
// Reservation and ledger agree.
func TestAStreamBeyondItsBoundIsCut(t *testing.T) {
	words := strings.Repeat("some words ", 100) // 1,100 bytes
	flood := func(event provider.Event) []step {
		steps := make([]step, 100)
		for i := range steps {
			steps[i] = step{event: event}
		}
		return append(steps, end(nil))
	}
	for name, c := range map[string]struct {
		event provider.Event
		ask   func(r *Request)
		steps int // the most steps before the cut
	}{
		"text":              {provider.Event{Text: words}, func(r *Request) { r.Chat.MaxTokens = 100 }, 6},
		"choices":           {provider.Event{Text: words}, func(r *Request) { r.Chat.MaxTokens, r.Bounds.Choices = 100, 4 }, 24},
		"the larger limit":  {provider.Event{Text: words}, func(r *Request) { r.Chat.MaxTokens, r.Bounds.Output = 10, 100 }, 6},
		"thinking":          {provider.Event{Reasoning: words, Native: []byte("{}")}, func(r *Request) { r.Chat.MaxTokens = 100 }, 6},
		"hidden thinking":   {provider.Event{Reasoning: words}, func(r *Request) { r.Chat.MaxTokens = 100 }, 6},
		"arguments":         {provider.Event{ToolCalls: []provider.ToolCall{{Name: "f", Arguments: words}}}, func(r *Request) { r.Chat.MaxTokens = 100 }, 6},
		"by its own report": {provider.Event{Text: "x", Usage: &provider.Usage{Input: 1, Output: 117}}, func(r *Request) { r.Chat.MaxTokens = 100 }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, nil, &script{name: "a", steps: flood(c.event)})
			d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
			b.Admission = d
			r := request()
			c.ask(r)
			got, err := serveRequest(t.Context(), b, r, true)
			if !errors.Is(err, errBeyondLimit) {
				t.Errorf("ended with %v", err)
			}
			if len(got) > c.steps*len(words) {
				t.Errorf("%d bytes came through", len(got))
			}
			if len(b.ledger.entries) != 1 {
				t.Fatalf("%d rows", len(b.ledger.entries))
			}
			row := b.ledger.entries[0]
			if row.Outcome != ledger.OutcomeAborted || row.Usage.Output == 0 || row.Cost > d.reserved[row.ID] {
				t.Errorf("%s, %d tokens, %d of %d", row.Outcome, row.Usage.Output, row.Cost, d.reserved[row.ID])
			}
		})
	}
}

// An honest answer within its bound is never cut, whatever its tokens look like.
func TestAnHonestStreamIsNotCut(t *testing.T) {
	for name, token := range map[string]string{
		"a word":              " word",
		"a long word":         " internationalization",
		"the longest":         ".translatesAutoresizingMaskIntoConstraints",
		"another script":      " представителей",
		"runs of spaces":      strings.Repeat(" ", 128),
		"a rule":              strings.Repeat("-", 128),
		"base64":              "QUJD",
		"a part of a picture": "\xe2",
	} {
		steps := make([]step, 0, 101)
		for range 100 {
			steps = append(steps, text(token))
		}
		steps = append(steps, end(&provider.Usage{Input: 3, Output: 100}))
		b := setup(t, nil, &script{name: "a", steps: steps})
		b.Admission = &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
		r := request()
		r.Chat.MaxTokens = 100
		got, err := serveRequest(t.Context(), b, r, true)
		if err != nil || got != strings.Repeat(token, 100) {
			t.Errorf("%s: cut after %d bytes, %v", name, len(got), err)
		}
		if row := b.ledger.entries[0]; row.State != ledger.StateReported || row.Usage.Output != 100 {
			t.Errorf("%s: %s, %d tokens", name, row.State, row.Usage.Output)
		}
	}
}

// The fields of a native body beyond the common ones are part of the reservation.
func TestBoundsOfANativeBody(t *testing.T) {
	reserve := func(change func(r *Request)) price.Pico {
		b := setup(t, nil, &script{name: "a", answer: good})
		d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
		b.Admission = d
		r := request()
		r.Chat.MaxTokens, r.Chat.Native = 1000, &provider.Native{Dialect: "openai", Body: []byte(`{"messages":[]}`)}
		change(r)
		if _, err := b.Chat(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		return d.reserved[b.ledger.entries[0].ID]
	}
	plain := reserve(func(*Request) {})
	const output = 2_000_000 // pico-USD a token
	for name, c := range map[string]struct {
		change func(r *Request)
		more   price.Pico
	}{
		"choices":                 {func(r *Request) { r.Bounds.Choices = 3 }, 2 * (1000 + choiceOutput) * output},
		"a larger limit":          {func(r *Request) { r.Bounds.Output = 3000 }, 2000 * output},
		"a smaller one":           {func(r *Request) { r.Bounds.Output = 10 }, 0},
		"one that may be ignored": {func(r *Request) { r.Chat.MaxTokens, r.Bounds.Output = 0, 10 }, (assumedOutput - 1000) * output},
		"a budget of thinking":    {func(r *Request) { r.Bounds.Thinking = 500 }, 500 * output},
		"within Anthropic's":      {func(r *Request) { r.Bounds.Thinking, r.Chat.Native.Dialect = 500, "anthropic" }, 0},
		"beyond Anthropic's":      {func(r *Request) { r.Bounds.Thinking, r.Chat.Native.Dialect = 5000, "anthropic" }, 5000 * output},
		"a prediction":            {func(r *Request) { r.Bounds.Extra = 70 }, 70 * output},
		"a file":                  {func(r *Request) { r.Bounds.OpenInput = true }, openInput * 1_000_000},
		"the form of an answer":   {func(r *Request) { r.Chat.ResponseFormat = []byte(strings.Repeat(" ", 5000)) }, (5000 + 8 - 15) * 1_000_000},
	} {
		if got := reserve(c.change) - plain; c.more != got && (name != "the form of an answer" || got < 4900*1_000_000) {
			t.Errorf("%s: %d more are set aside, want %d", name, got, c.more)
		}
	}
}

// A surcharge has no price, so that a request with one is refused under a ceiling.
func TestSurchargeUnderACeiling(t *testing.T) {
	for _, allow := range []bool{false, true} {
		b := setup(t, nil, &script{name: "a", answer: good})
		b.Fleet().ServesUnpriced = allow
		b.Admission = &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
		r := request()
		r.Bounds.Surcharged, r.Bounds.Unpriced = true, "service_tier"
		_, err := b.Chat(t.Context(), r)
		if allow && err != nil {
			t.Errorf("allowed: %v", err)
		}
		if !allow {
			refused(t, err, 403, ReasonModelNotAllowed, "")
		}
	}
}

// The dearest way to count an answer is what is set aside: some models draw while
// they talk, and their images cost more than their words.
func TestTheWorstHoldsImagesOfAChat(t *testing.T) {
	table := pricetest.Table(t, `providers: [{provider: a, models: [{model: a-1, effective_from: 2020-01-01, input_per_mtok_usd: 1, cache_read_per_mtok_usd: 9, output_per_mtok_usd: 2, image_output_per_mtok_usd: 50}]}]`)
	b := setup(t, nil, &script{name: "a", answer: provider.Answer{Text: "x", FinishReason: provider.FinishStop, Usage: &provider.Usage{CacheRead: 8, ImageOutput: 100}}})
	b.Fleet().Prices = table
	d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
	b.Admission = d
	r := request()
	r.Chat.MaxTokens = 100
	if _, err := b.Chat(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	row := b.ledger.entries[0]
	if want := table.Cost("a", "a-1", time.Now(), row.Usage).Amount; row.Usage.ImageOutput != 100 || row.Cost != want || row.Cost > d.reserved[row.ID] {
		t.Errorf("%+v costs %d of %d", row.Usage, row.Cost, d.reserved[row.ID])
	}
}
