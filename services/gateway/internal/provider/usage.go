package provider

// Usage counts tokens in disjoint buckets: no token is in two of them, so that
// each bucket can be priced by itself. Vendors that report inclusive totals are
// normalised by their dialect.
type Usage struct {
	// Input that was read afresh.
	Input int64
	// CacheRead and CacheWrite are input served from and written to the vendor's prompt cache.
	CacheRead, CacheWrite int64
	// Output that the caller sees.
	Output int64
	// Reasoning is output that the caller doesn't see.
	Reasoning int64
	// Images made.
	Images int64
}

// Prompt is all input, as the contract's prompt_tokens.
func (u Usage) Prompt() int64 { return u.Input + u.CacheRead + u.CacheWrite }

// Completion is all output, as the contract's completion_tokens.
func (u Usage) Completion() int64 { return u.Output + u.Reasoning }

// Estimate guesses the usage of text when a vendor reported none: a token for
// every four bytes, at least one where there is text. Callers mark it estimated.
func Estimate(promptBytes, completionBytes int) Usage {
	tokens := func(n int) int64 { return int64((n + 3) / 4) }
	return Usage{Input: tokens(promptBytes), Output: tokens(completionBytes)}
}
