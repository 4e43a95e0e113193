package provider

// Usage counts tokens in disjoint buckets: no token is in two of them, so that
// each bucket can be priced by itself. Vendors that report inclusive totals are
// normalised by their dialect.
type Usage struct {
	// Input text that was read afresh.
	Input int64
	// CacheRead is input served from the vendor's prompt cache, CacheWrite input
	// written to it, and CacheWriteLong what is kept there for an hour.
	CacheRead, CacheWrite, CacheWriteLong int64
	// ImageInput and AudioInput are input of these kinds, where a vendor tells
	// them from text.
	ImageInput, AudioInput int64
	// Output text that the caller sees.
	Output int64
	// Reasoning is output that the caller doesn't see.
	Reasoning int64
	// ImageOutput and AudioOutput are output of these kinds.
	ImageOutput, AudioOutput int64
	// Images made: pieces, not tokens.
	Images int64
}

// Prompt returns all tokens of input, the contract's prompt_tokens.
func (u Usage) Prompt() int64 { return u.on(SidePrompt) }

// Completion returns all tokens of output, the contract's completion_tokens.
func (u Usage) Completion() int64 { return u.on(SideCompletion) }

func (u *Usage) on(side Side) (sum int64) {
	for _, b := range side.Buckets() {
		sum += *b.Of(u)
	}
	return sum
}

// Estimate guesses the usage of text when a vendor reported none: a token for
// every four bytes, at least one where there is text. Callers mark it estimated.
func Estimate(promptBytes, completionBytes int) Usage {
	tokens := func(n int) int64 { return int64((n + 3) / 4) }
	return Usage{Input: tokens(promptBytes), Output: tokens(completionBytes)}
}

// Add adds the usage of another call.
func (u *Usage) Add(other Usage) {
	for _, b := range Buckets() {
		*b.Of(u) += *b.Of(&other)
	}
}
