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

// Prompt is all input, as the contract's prompt_tokens.
func (u Usage) Prompt() int64 {
	return u.Input + u.CacheRead + u.CacheWrite + u.CacheWriteLong + u.ImageInput + u.AudioInput
}

// Completion is all output, as the contract's completion_tokens.
func (u Usage) Completion() int64 { return u.Output + u.Reasoning + u.ImageOutput + u.AudioOutput }

// Estimate guesses the usage of text when a vendor reported none: a token for
// every four bytes, at least one where there is text. Callers mark it estimated.
func Estimate(promptBytes, completionBytes int) Usage {
	tokens := func(n int) int64 { return int64((n + 3) / 4) }
	return Usage{Input: tokens(promptBytes), Output: tokens(completionBytes)}
}

// Add adds what another call used.
func (u *Usage) Add(other Usage) {
	u.Input += other.Input
	u.CacheRead += other.CacheRead
	u.CacheWrite += other.CacheWrite
	u.CacheWriteLong += other.CacheWriteLong
	u.ImageInput += other.ImageInput
	u.AudioInput += other.AudioInput
	u.Output += other.Output
	u.Reasoning += other.Reasoning
	u.ImageOutput += other.ImageOutput
	u.AudioOutput += other.AudioOutput
	u.Images += other.Images
}
