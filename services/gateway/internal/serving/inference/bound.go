package inference

import (
	"log/slog"
	"math"
	"strings"

	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Bounds are the fields of a native body that affect the size and the price of its answer, beside those that every
// dialect has. The zero value is of a body with none of them.
type Bounds struct {
	// LimitField names the field that limits the output in the caller's form; empty means max_tokens.
	LimitField string `json:"-"`
	// Choices is the number of answers that are asked for; 0 is one.
	Choices int64
	// Output is the most tokens of each answer that any field allows; 0 where none does. It can only raise the
	// reservation: not every server knows every field. Thinking is the budget of thinking, which some servers count
	// separately.
	Output, Thinking int64
	// Extra is the number of tokens that may be billed as output without being in an answer: those of a prediction that
	// did not come true.
	Extra int64
	// OpenInput reports whether the vendor may read more than the body holds (a file by its id, a page, a search of the
	// web).
	OpenInput bool
	// Surcharged reports whether the vendor bills more than tokens at their list price (a service tier, a search of the
	// web), so that its usage is only a part of the bill. Unpriced names the field that may raise the bill; empty for
	// none.
	Surcharged bool
	Unpriced   string
	// Offered is "field: tool" for a tool of the vendor's own that the body offers to the model. A candidate that takes the
	// body as it came may read and bill more because of it, which has no price. Empty for none.
	Offered string
}

// opens reports whether a candidate may read more than the body holds, surcharges whether it may bill more than tokens.
func (b *Bounds) opens(c *candidate) bool { return b.OpenInput || b.Offered != "" && c.Native }

func (b *Bounds) surcharges(c *candidate) bool { return b.Surcharged || b.Offered != "" && c.Native }

// Assumptions where neither the request nor the model's limits give a bound, in tokens.
const (
	// assumedOutput is reserved for an answer whose bound is unknown; a stream that grows beyond it is cut. openOutput is
	// what a vendor may report of such an answer without a reservation: no model writes more at once.
	assumedOutput = 32 << 10
	openOutput    = 128 << 10
	// openInput is what a vendor may read beside the body, where the model's limit is unknown.
	openInput = 1 << 20
	// requestInput is how many tokens a vendor may add to any conversation (its own prompts), toolsInput how many to
	// one with tools, and messageInput how many around a message, a tool or a text to embed.
	requestInput, toolsInput, messageInput = 256, 1024, 32
	// choiceOutput is what a vendor may count around an answer: its end, and the tokens that delimit a call.
	choiceOutput = 16
	// imageInput is reserved for an image in the input, imageOutput for a generated one, where the vendor counts tokens of
	// images. dearImageInput is for models that count an image as many cheap tokens (OpenAI's gpt-4o-mini: 2,833 and 5,667
	// for each of up to eight tiles).
	imageInput, imageOutput = 8192, 8192
	dearImageInput          = 49152
)

// bound is the most that a request can use at a candidate, whichever buckets the vendor counts it in: Input holds all
// input, and Output all tokens of output.
type bound struct {
	provider.Usage
	// assumed reports whether neither the request nor the model's limits bound the output.
	assumed bool
}

// mostUsage returns the most that a request can use: a token for each byte, which no vendor's text exceeds, and the
// longest answer. reserved reports whether an answer without a bound may use only what is reserved. It never counts by
// a vocabulary: it is computed before each call, and a count is no upper bound of another model's.
func mostUsage(r *Request, c *candidate, reserved bool) bound {
	if r.Relay != nil {
		return bound{Usage: r.Relay.Most}
	}
	if r.Embedding.Len() > 0 {
		return bound{Usage: provider.Usage{Input: mostEmbedded(&r.Embedding, c.Limits)}}
	}
	most := bound{Usage: provider.Usage{Input: mostInput(r, c)}}
	if r.ImageRequest.Prompt != "" {
		most.Images = int64(max(r.ImageRequest.Count, 1))
		most.Output = most.Images * imageOutput
		return most
	}
	output := int64(firstOf(r.Chat.MaxTokens, c.Limits.Output, c.Limits.Context))
	if most.assumed = output == 0; most.assumed {
		output = openOutput
		if reserved {
			output = assumedOutput
		}
	}
	output = max(output, r.Bounds.Output)
	if native := r.Chat.Native; r.Bounds.Thinking >= output || native != nil && native.Dialect != dialectAnthropic {
		output += r.Bounds.Thinking // Anthropic counts a smaller budget within max_tokens; others may not.
	}
	choices := max(r.Bounds.Choices, 1)
	most.Output = (output+choiceOutput)*choices + r.Bounds.Extra
	return most
}

// dialectAnthropic is the dialect whose thinking is within max_tokens.
const dialectAnthropic = "anthropic"

// mostInput returns the most input of anything but an embedding, in tokens.
func mostInput(r *Request, c *candidate) int64 {
	input, images := int64(promptBytes(r)+len(r.Chat.ResponseFormat)), 0
	for i := range r.Chat.Messages {
		m := &r.Chat.Messages[i]
		input += int64(len(m.Name) + len(m.ToolCallID))
		for _, call := range m.ToolCalls {
			input += int64(len(call.ID) + len(call.Extra))
		}
		for _, part := range m.Content {
			if part.ImageURL != "" {
				images++
			}
			if part.File != nil {
				input += int64(len(part.File.URL))
			}
		}
	}
	if native := r.Chat.Native; native != nil {
		input = max(input, int64(len(native.Body)-imageBytes(r)))
	}
	input += requestInput + int64(messageInput*(len(r.Chat.Messages)+len(r.Chat.Tools))+imageTokensAt(c)*images)
	if len(r.Chat.Tools) > 0 {
		input += toolsInput
	}
	limit := int64(firstOf(c.Limits.Input, c.Limits.Context))
	switch {
	case r.Bounds.opens(c) && limit == 0:
		return input + openInput
	case r.Bounds.opens(c):
		return limit
	case limit > 0:
		return min(input, limit)
	}
	return input
}

// imageTokensAt returns the most tokens that an image can count at a candidate.
func imageTokensAt(c *candidate) int {
	if strings.Contains(c.Upstream, "4o-mini") {
		return dearImageInput
	}
	return imageInput
}

// mostEmbedded returns the most tokens that an embedding can use. The model's limit applies to each input by itself.
func mostEmbedded(e *provider.Embedding, limits policy.Limits) (most int64) {
	limit := firstOf(limits.Input, limits.Context, math.MaxInt)
	for _, text := range e.Input {
		most += int64(min(len(text)+messageInput, limit))
	}
	for _, tokens := range e.Tokens {
		most += int64(min(len(tokens)+messageInput, limit))
	}
	return most
}

// imageBytes returns how many bytes of a body inlined images take.
func imageBytes(r *Request) (n int) {
	for i := range r.Chat.Messages {
		for _, part := range r.Chat.Messages[i].Content {
			n += len(part.ImageURL)
		}
	}
	return n
}

func firstOf(limits ...int) int {
	for _, limit := range limits {
		if limit > 0 {
			return limit
		}
	}
	return 0
}

// Bytes of a stream, whatever they contain: what may come with each token (the log probabilities of twenty others have
// some 11 KiB, a token of sound 6 KiB) and what may come with an answer (a page that was read, the code's output).
const (
	streamToken = 16 << 10
	streamSpare = 4 << 20
)

// outgrown returns the error of an answer that exceeded its bound with an event; nil within the bound. It compares the
// usage that the vendor reports, or without a report the fewest tokens that so many bytes of output, or of the whole
// stream, can be. Where no bound is known an estimate by bytes decides, since each event comes here. ended reports
// whether the vendor had announced its end before, and size is how many bytes have arrived.
func (s *incoming) outgrown(event provider.Event, ended bool, size int) error {
	most := s.most.Output
	beyond := int64(size-streamSpare)/streamToken > most
	switch {
	case s.most.assumed && !s.x.reserves():
		return nil
	case beyond:
	case event.FinishReason != "" && !ended, ended && !event.Output(): // The usage is clamped.
		return nil
	case s.most.assumed:
		if provider.Estimate(0, s.tally.bytes).Output > assumedOutput*max(s.x.request.Bounds.Choices, 1) {
			return budget.ErrOutgrown
		}
		return nil
	case leastTokens(s.tally.bytes, s.tally.runs) <= most && (ended || s.tally.usage == nil || s.tally.usage.Completion() <= most):
		return nil
	}
	s.x.engine.metrics.implausible(s.attempt.Provider, excessStream)
	s.x.engine.Log.WarnContext(s.ctx, "a stream exceeded the output that was asked for and was cut",
		slog.String("provider", s.attempt.Provider), slog.String("model", s.attempt.Model), slog.Int("bytes", s.tally.bytes))
	return errBeyondLimit
}
