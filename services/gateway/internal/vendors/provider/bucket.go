package provider

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

	// BucketCount is the number of buckets.
	BucketCount int = iota
)

// Side is the part of a request that a bucket counts.
type Side int

// The sides. Tokens are on the first two; SidePieces counts generated images.
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
	member   string
	of       func(u *Usage) *int64
}{
	BucketInput: {
		"input", SidePrompt, BucketInput, "input_per_mtok_usd", "input_tokens", "Input",
		func(u *Usage) *int64 { return &u.Input },
	},
	BucketCacheRead: {
		"cache_read", SidePrompt, BucketInput, "cache_read_per_mtok_usd", "cache_read_tokens", "CacheRead",
		func(u *Usage) *int64 { return &u.CacheRead },
	},
	BucketCacheWrite: {
		"cache_write", SidePrompt, BucketInput, "cache_write_per_mtok_usd", "cache_write_tokens", "CacheWrite",
		func(u *Usage) *int64 { return &u.CacheWrite },
	},
	BucketCacheWriteLong: {
		"cache_write_long", SidePrompt, BucketCacheWrite, "cache_write_1h_per_mtok_usd", "cache_write_long_tokens", "CacheWriteLong",
		func(u *Usage) *int64 { return &u.CacheWriteLong },
	},
	BucketImageInput: {
		"image_input", SidePrompt, BucketInput, "image_input_per_mtok_usd", "image_input_tokens", "ImageInput",
		func(u *Usage) *int64 { return &u.ImageInput },
	},
	BucketAudioInput: {
		"audio_input", SidePrompt, BucketInput, "audio_input_per_mtok_usd", "audio_input_tokens", "AudioInput",
		func(u *Usage) *int64 { return &u.AudioInput },
	},
	BucketOutput: {
		"output", SideCompletion, BucketOutput, "output_per_mtok_usd", "output_tokens", "Output",
		func(u *Usage) *int64 { return &u.Output },
	},
	BucketReasoning: {
		"reasoning", SideCompletion, BucketOutput, "reasoning_per_mtok_usd", "reasoning_tokens", "Reasoning",
		func(u *Usage) *int64 { return &u.Reasoning },
	},
	BucketAudioOutput: {
		"audio_output", SideCompletion, BucketOutput, "audio_output_per_mtok_usd", "audio_output_tokens", "AudioOutput",
		func(u *Usage) *int64 { return &u.AudioOutput },
	},
	BucketImageOutput: {
		"image_output", SideCompletion, BucketOutput, "image_output_per_mtok_usd", "image_output_tokens", "ImageOutput",
		func(u *Usage) *int64 { return &u.ImageOutput },
	},
	BucketImages: {
		"images", SidePieces, BucketImages, "per_image_usd", "images", "Images",
		func(u *Usage) *int64 { return &u.Images },
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

// Of returns the bucket's count in u.
func (b Bucket) Of(u *Usage) *int64 { return buckets[b].of(u) }

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

// Member returns the bucket's member in the JSON of a Usage.
func (b Bucket) Member() string { return buckets[b].member }
