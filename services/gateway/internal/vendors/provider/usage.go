package provider

// Usage counts tokens in disjoint buckets: no token is in two of them, so that each bucket has its own price. Usage of
// vendors that report inclusive totals is normalized by their dialect.
type Usage struct {
	// Input is input text that was not cached.
	Input int64 `json:",omitzero"`
	// CacheRead is input served from the vendor's prompt cache, CacheWrite is input written to it, and CacheWriteLong
	// is input kept there for an hour.
	CacheRead, CacheWrite, CacheWriteLong int64 `json:",omitzero"`
	// ImageInput and AudioInput are input of these kinds, if a vendor distinguishes them from text.
	ImageInput, AudioInput int64 `json:",omitzero"`
	// Output is output text that the caller sees.
	Output int64 `json:",omitzero"`
	// Reasoning is output that the caller doesn't see.
	Reasoning int64 `json:",omitzero"`
	// ImageOutput and AudioOutput are output of these kinds.
	ImageOutput, AudioOutput int64 `json:",omitzero"`
	// Images is the number of generated images, Characters that of a text to speak, AudioSeconds the length of a recording
	// to transcribe, and Searches what a reranker counts as one: pieces, not tokens.
	Images, Characters, AudioSeconds, Searches int64 `json:",omitzero"`
}

// Prompt returns all tokens of input, the contract's prompt_tokens.
func (u Usage) Prompt() int64 { return u.On(SidePrompt) }

// Completion returns all tokens of output, the contract's completion_tokens.
func (u Usage) Completion() int64 { return u.On(SideCompletion) }

// On returns all that is counted on a side.
func (u *Usage) On(side Side) (sum int64) {
	for _, b := range side.Buckets() {
		sum += *b.Of(u)
	}
	return sum
}

// Reported returns u, or nil if all its counts are zero: every call uses something, and a vendor that counts nothing may
// write zeros.
func (u *Usage) Reported() *Usage {
	if u == nil || *u == (Usage{}) {
		return nil
	}
	return u
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

// Bucket is one of the disjoint counts of a Usage. The table below is the one list of them: prices, bounds, metrics, the
// ledger's record and row and the contract's usage record iterate it.
type Bucket int

// The buckets. Of those of one side the specific ones stand behind the bucket that prices them by default.
const (
	BucketInput Bucket = iota
	BucketCacheRead
	BucketCacheWrite
	BucketCacheWriteLong
	BucketImageInput
	BucketAudioInput
	BucketOutput
	BucketReasoning
	BucketAudioOutput
	BucketImageOutput
	BucketImages
	BucketCharacters
	BucketAudioSeconds
	BucketSearches

	// BucketCount is the number of buckets.
	BucketCount int = iota
)

// Side is the part of a request that a bucket counts.
type Side int

// The sides. Tokens are on the first two; each bucket of SidePieces has a unit of its own.
const (
	SidePrompt Side = iota
	SideCompletion
	SidePieces
)

var buckets = [BucketCount]struct {
	name     string
	side     Side
	fallback Bucket
	tariff   string
	column   string
}{
	BucketInput: {
		"input", SidePrompt, BucketInput, "input_per_mtok_usd", "input_tokens",
	},
	BucketCacheRead: {
		"cache_read", SidePrompt, BucketInput, "cache_read_per_mtok_usd", "cache_read_tokens",
	},
	BucketCacheWrite: {
		"cache_write", SidePrompt, BucketInput, "cache_write_per_mtok_usd", "cache_write_tokens",
	},
	BucketCacheWriteLong: {
		"cache_write_long", SidePrompt, BucketCacheWrite, "cache_write_1h_per_mtok_usd", "cache_write_long_tokens",
	},
	BucketImageInput: {
		"image_input", SidePrompt, BucketInput, "image_input_per_mtok_usd", "image_input_tokens",
	},
	BucketAudioInput: {
		"audio_input", SidePrompt, BucketInput, "audio_input_per_mtok_usd", "audio_input_tokens",
	},
	BucketOutput: {
		"output", SideCompletion, BucketOutput, "output_per_mtok_usd", "output_tokens",
	},
	BucketReasoning: {
		"reasoning", SideCompletion, BucketOutput, "reasoning_per_mtok_usd", "reasoning_tokens",
	},
	BucketAudioOutput: {
		"audio_output", SideCompletion, BucketOutput, "audio_output_per_mtok_usd", "audio_output_tokens",
	},
	BucketImageOutput: {
		"image_output", SideCompletion, BucketOutput, "image_output_per_mtok_usd", "image_output_tokens",
	},
	BucketImages: {
		"images", SidePieces, BucketImages, "per_image_usd", "images",
	},
	BucketCharacters: {
		"characters", SidePieces, BucketCharacters, "per_mchar_usd", "characters",
	},
	BucketAudioSeconds: {
		"audio_seconds", SidePieces, BucketAudioSeconds, "per_audio_second_usd", "audio_seconds",
	},
	BucketSearches: {
		"searches", SidePieces, BucketSearches, "per_search_usd", "searches",
	},
}

// Buckets returns all buckets in the order of their constants.
func Buckets() [BucketCount]Bucket {
	var all [BucketCount]Bucket
	for i := range all {
		all[i] = Bucket(i)
	}
	return all
}

// bySide has the buckets of each side in their order.
var bySide = func() (all [SidePieces + 1][]Bucket) {
	for _, b := range Buckets() {
		all[b.Side()] = append(all[b.Side()], b)
	}
	return all
}()

// Buckets returns the buckets of a side in their order. Callers don't change the slice.
func (s Side) Buckets() []Bucket { return bySide[s] }

// Of returns the bucket's count in u; nil for a number that is no bucket. It is a switch, since a function of the table
// would move each Usage to the heap.
func (b Bucket) Of(u *Usage) *int64 {
	switch b {
	case BucketInput:
		return &u.Input
	case BucketCacheRead:
		return &u.CacheRead
	case BucketCacheWrite:
		return &u.CacheWrite
	case BucketCacheWriteLong:
		return &u.CacheWriteLong
	case BucketImageInput:
		return &u.ImageInput
	case BucketAudioInput:
		return &u.AudioInput
	case BucketOutput:
		return &u.Output
	case BucketReasoning:
		return &u.Reasoning
	case BucketAudioOutput:
		return &u.AudioOutput
	case BucketImageOutput:
		return &u.ImageOutput
	case BucketImages:
		return &u.Images
	case BucketCharacters:
		return &u.Characters
	case BucketAudioSeconds:
		return &u.AudioSeconds
	case BucketSearches:
		return &u.Searches
	}
	return nil
}

// Name returns the bucket's name in metrics.
func (b Bucket) Name() string { return buckets[b].name }

// Side returns what the bucket counts.
func (b Bucket) Side() Side { return buckets[b].side }

// Fallback returns the bucket whose rate prices this one where it has none of its own; false where there is none.
func (b Bucket) Fallback() (Bucket, bool) { return buckets[b].fallback, buckets[b].fallback != b }

// Tariff returns the field of a price document that has the bucket's rate.
func (b Bucket) Tariff() string { return buckets[b].tariff }

// Column returns the bucket's column in the ledger, which is its field in the contract's usage record too.
func (b Bucket) Column() string { return buckets[b].column }
