package inference

import (
	"cmp"
	"context"
	"log/slog"

	"switchyard.dev/services/gateway/internal/content/token"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// A vendor's report is believed as far as it can be true: not beyond the most that a request can use, and not where it
// counts nothing although there was something. Both bounds are here.

// excess names a part of a usage report that exceeds what the request can use.
type excess string

// The parts, as the metric names them; pieces have the name of their bucket.
const (
	excessInput  excess = "input"
	excessOutput excess = "output"
	// excessStream is of a stream that exceeded its bound and was cut.
	excessStream excess = "stream"
)

// arrived is how much of an answer arrived, in bytes; 0 if that is unknown. hidden reports whether the vendor may have
// counted thinking that it didn't send among the output.
type arrived struct {
	bytes  int
	hidden bool
}

// clamp lowers a report to the bound, and returns the parts that exceeded it. Negative counts become 0. Where the vendor
// counts no thinking among the output, the output is at most a token for each byte that arrived, plus toolsInput.
func (b *bound) clamp(u *provider.Usage, of arrived) (beyond []excess) {
	for _, bucket := range provider.Buckets() {
		*bucket.Of(u) = max(*bucket.Of(u), 0)
	}
	if take(b.Input, u, provider.SidePrompt) {
		beyond = append(beyond, excessInput)
	}
	output := take(b.Output, u, provider.SideCompletion)
	if of.bytes > 0 && (u.Reasoning > 0 || !of.hidden) {
		output = cut(int64(of.bytes)+toolsInput, &u.Output) || output
	}
	if output {
		beyond = append(beyond, excessOutput)
	}
	for _, bucket := range provider.SidePieces.Buckets() {
		if cut(*bucket.Of(&b.Usage), bucket.Of(u)) {
			beyond = append(beyond, excess(bucket.Name()))
		}
	}
	return beyond
}

// take distributes a total over the buckets of a side, to each at most what it has: first to the specific ones in their
// order, then to those that they fall back to. It reports whether a bucket was cut. Sums can't overflow.
func take(left int64, u *provider.Usage, side provider.Side) (wasCut bool) {
	for _, isSpecific := range []bool{true, false} {
		for _, b := range side.Buckets() {
			if _, specific := b.Fallback(); specific == isSpecific {
				wasCut = cut(left, b.Of(u)) || wasCut
				left -= *b.Of(u)
			}
		}
	}
	return wasCut
}

// cut lowers a count to a limit, and reports whether it was above.
func cut(limit int64, count *int64) bool {
	if *count <= limit {
		return false
	}
	*count = limit
	return true
}

// Bytes of one token of text. The longest words of the vocabularies in use are below textBytes
// (".translatesAutoresizingMaskIntoConstraints" has 42), and runs of one character, as spaces or dashes, come in tokens
// of up to runBytes.
const (
	textBytes = 48
	runBytes  = 128
)

// leastTokens returns the smallest number of tokens that a text can have: for an honest answer within its bound it is
// never larger than the bound.
func leastTokens(bytes, runs int) int64 { return int64((bytes-runs)/textBytes + runs/runBytes) }

// runsOf returns how many bytes of a text repeat the byte before them.
func runsOf(text string) (n int) {
	for i := 1; i < len(text); i++ {
		if text[i] == text[i-1] {
			n++
		}
	}
	return n
}

// plausibleBytes is the number of bytes of text per token at which a report is accepted without counting. Few texts
// that people or programs write have more tokens than that.
const plausibleBytes = 3

// countInput lowers the input bound to the text's tokens by the model's vocabulary plus a quarter, and what isn't text.
// It counts only if the report exceeds what most texts have, the vocabulary is known, and the text is short enough to
// be counted in full.
func (b *bound) countInput(r *Request, c *candidate, reported *provider.Usage) {
	text := int64(promptBytes(r))
	around := b.Input - text
	if r.Relay != nil || r.Bounds.opens(c) || around < 0 || text > token.MostBytes || reported.Prompt() <= text/plausibleBytes+messageInput {
		return
	}
	if counter, known := token.For(c.names()...); known {
		tokens := countInput(r, &counter)
		b.Input = min(b.Input, tokens+tokens/4+around)
	}
}

// raise replaces each side of a report that counts no tokens by the estimate's, if that counts some: absent is not zero.
// It reports whether it replaced any.
func raise(u *provider.Usage, estimate provider.Usage) (raised bool) {
	for _, side := range []provider.Side{provider.SidePrompt, provider.SideCompletion} {
		if u.On(side) > 0 || estimate.On(side) == 0 {
			continue
		}
		for _, b := range side.Buckets() {
			*b.Of(u) = *b.Of(&estimate)
		}
		raised = true
	}
	return raised
}

// complete replaces what a clamped report lacks by an estimate, and reports whether it did. A request always has input,
// and an answer with content has output. complete believes the zeros of an answer without content, of a vendor's filter
// that answered in place of the model, and of a report in pieces that are priced as such. While an answer is being
// streamed, its output may not have been counted: wasCut reports whether the answer ended there.
func (x *execution) complete(ctx context.Context, u *provider.Usage, c *charge, wasCut bool) (completed bool) {
	switch tokens := u.Prompt() + u.Completion(); {
	case tokens == 0 && c.filtered:
	case *u == provider.Usage{}:
		*u = x.estimate(c, c.images)
		completed = *u != provider.Usage{}
	case tokens == 0:
		with := *u
		if raise(&with, x.estimate(c, int(u.Images))) && x.cost(c.of, c.at, *u).Amount == 0 && x.cost(c.of, c.at, with).Amount > 0 {
			*u, completed = with, true
		}
	default:
		var estimate provider.Usage
		if u.Prompt() == 0 || x.request.Relay != nil {
			estimate = estimateInput(x.request, c.of.names()...)
		}
		if u.Completion() == 0 && !wasCut {
			estimate.Add(x.estimateOutput(c, u.Images))
		}
		completed = raise(u, estimate)
	}
	if completed {
		x.engine.Log.InfoContext(ctx, "a provider reports no tokens for a call that used some; they are estimated",
			slog.String("provider", c.of.Provider), slog.String("model", c.of.Model), slog.Any("reported", *c.usage))
	}
	return completed
}

// estimate estimates the usage of a call that made a number of images as its result, if the vendor reported none.
func (x *execution) estimate(c *charge, images int) provider.Usage {
	u := estimateInput(x.request, c.of.names()...)
	u.Images = max(u.Images, int64(images))
	u.Add(x.estimateOutput(c, u.Images))
	return u
}

// estimateOutput estimates the output tokens of a call that made a number of images as its result.
func (x *execution) estimateOutput(c *charge, images int64) provider.Usage {
	each := int64(cmp.Or(c.of.ImageTokens, imageTokens))
	u := provider.Usage{Output: c.outputTokens(c.of), ImageOutput: int64(c.pictures) * each}
	tokens := provider.Usage{ImageOutput: images * each}
	if images > 0 && x.cost(c.of, c.at, provider.Usage{Images: images}).Amount == 0 && x.cost(c.of, c.at, tokens).Amount > 0 {
		u.Add(tokens) // The model's images are priced by their tokens.
	}
	return u
}

// BatchUsage returns what a request of a batch job is billed for: the vendor's report as far as it is plausible, and in
// beyond the original if more was reported. written is how many bytes of the answer the model wrote.
func BatchUsage(reported *provider.Usage, of BatchBound, written int) (u provider.Usage, state ledger.State, beyond *provider.Usage) {
	most := bound{Usage: provider.Usage{Input: of.MostInput, Output: of.MostOutput}}
	estimate := provider.Usage{Input: of.Input, Output: provider.Estimate(0, written).Output}
	most.clamp(&estimate, arrived{})
	if reported.Reported() == nil {
		return estimate, ledger.StateEstimated, nil
	}
	u, state = *reported, ledger.StateReported
	if len(most.clamp(&u, arrived{})) > 0 {
		state, beyond = ledger.StatePartial, reported
	}
	if raise(&u, estimate) {
		state = ledger.StateEstimated
	}
	return u, state, beyond
}
