package provider

// Usage counts tokens in disjoint buckets: no token is in two of them, so that each bucket has its own price. Usage of
// vendors that report inclusive totals is normalized by their dialect.
type Usage struct {
	// Input is input text that was not cached.
	Input int64
	// CacheRead is input served from the vendor's prompt cache, CacheWrite is input written to it, and CacheWriteLong
	// is input kept there for an hour.
	CacheRead, CacheWrite, CacheWriteLong int64
	// ImageInput and AudioInput are input of these kinds, if a vendor distinguishes them from text.
	ImageInput, AudioInput int64
	// Output is output text that the caller sees.
	Output int64
	// Reasoning is output that the caller doesn't see.
	Reasoning int64
	// ImageOutput and AudioOutput are output of these kinds.
	ImageOutput, AudioOutput int64
	// Images is the number of generated images: pieces, not tokens.
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

// Estimate estimates the usage for a text if a vendor reported none: a token for every four bytes, rounded up. Callers
// mark it as estimated.
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
