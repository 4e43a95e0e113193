package price

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Rates are the prices of one model, one for each bucket of provider.Usage. A bucket without a rate of its own uses
// that of its wider bucket: any kind of input uses Input, any kind of output uses Output, and a long cache write uses
// CacheWrite.
type Rates struct {
	Input          *Rate `yaml:"input_per_mtok_usd"`
	CacheRead      *Rate `yaml:"cache_read_per_mtok_usd"`
	CacheWrite     *Rate `yaml:"cache_write_per_mtok_usd"`
	CacheWriteLong *Rate `yaml:"cache_write_1h_per_mtok_usd"`
	ImageInput     *Rate `yaml:"image_input_per_mtok_usd"`
	AudioInput     *Rate `yaml:"audio_input_per_mtok_usd"`
	Output         *Rate `yaml:"output_per_mtok_usd"`
	Reasoning      *Rate `yaml:"reasoning_per_mtok_usd"`
	ImageOutput    *Rate `yaml:"image_output_per_mtok_usd"`
	AudioOutput    *Rate `yaml:"audio_output_per_mtok_usd"`
	// Image is the price of one generated image, in addition to its tokens if they have a price.
	Image *Each `yaml:"per_image_usd"`
	// Character is the price of a million characters to speak, AudioSecond that of a second of a recording, and Search that
	// of a search of a reranker.
	Character   *Rate `yaml:"per_mchar_usd"`
	AudioSecond *Each `yaml:"per_audio_second_usd"`
	Search      *Each `yaml:"per_search_usd"`
	// BatchPercent is what a request in a batch job costs, in percent of these prices; nil is 100.
	BatchPercent *int `yaml:"batch_percent"`
}

// IsZero reports whether no price is set.
func (r Rates) IsZero() bool { return r == Rates{} }

// check returns an error unless the two rates that the others fall back to are set, or the price of a piece and no rate of
// tokens.
func (r Rates) check() error {
	if r.BatchPercent != nil && (*r.BatchPercent < 0 || *r.BatchPercent > wholePercent) {
		return errors.New("batch_percent: must be from 0 to 100")
	}
	tokens, piece := r.Input != nil || r.Output != nil, false
	for _, b := range provider.SidePieces.Buckets() {
		piece = piece || r.own()[b] != nil
	}
	if r.Input != nil && r.Output != nil || piece && !tokens {
		return nil
	}
	return errors.New("input_per_mtok_usd and output_per_mtok_usd: both are required, or the price of a piece alone, such as per_image_usd")
}

// own returns the rates that are set, by bucket; nil for a bucket without a rate of its own.
func (r *Rates) own() [provider.BucketCount]*Rate {
	return [provider.BucketCount]*Rate{
		provider.BucketInput:          r.Input,
		provider.BucketCacheRead:      r.CacheRead,
		provider.BucketCacheWrite:     r.CacheWrite,
		provider.BucketCacheWriteLong: r.CacheWriteLong,
		provider.BucketImageInput:     r.ImageInput,
		provider.BucketAudioInput:     r.AudioInput,
		provider.BucketOutput:         r.Output,
		provider.BucketReasoning:      r.Reasoning,
		provider.BucketAudioOutput:    r.AudioOutput,
		provider.BucketImageOutput:    r.ImageOutput,
		// All are pico-USD for one of what the bucket counts.
		provider.BucketImages:       (*Rate)(r.Image),
		provider.BucketCharacters:   r.Character,
		provider.BucketAudioSeconds: (*Rate)(r.AudioSecond),
		provider.BucketSearches:     (*Rate)(r.Search),
	}
}

// wholePercent is all of a price.
const wholePercent = 100

// batchPercent returns what a request in a batch job costs, in percent.
func (r *Rates) batchPercent() int {
	if r.BatchPercent == nil {
		return wholePercent
	}
	return *r.BatchPercent
}

// share returns a percentage of an amount, rounded up.
func share(amount Pico, percent int) Pico {
	part := Pico(percent)
	return amount/wholePercent*part + (amount%wholePercent*part+wholePercent-1)/wholePercent
}

// cost returns the sum of all buckets. A bucket without a rate, its own or that of its fallback, costs nothing. A sum
// that overflows is the largest amount instead: a vendor's report must not become a small or negative bill.
func (r *Rates) cost(u *provider.Usage) Pico {
	var sum uint64
	own := r.own()
	for _, b := range provider.Buckets() {
		if rate := effective(&own, b); rate != nil {
			sum = add(sum, *b.Of(u), int64(*rate))
		}
	}
	return Pico(sum)
}

// effective returns the rate of a bucket, its own or that of its wider bucket; nil if it has none.
func effective(own *[provider.BucketCount]*Rate, b provider.Bucket) *Rate {
	rate := own[b]
	for at := b; rate == nil; rate = own[at] {
		var ok bool
		if at, ok = at.Fallback(); !ok {
			break
		}
	}
	return rate
}

// add returns sum plus count times rate, at most math.MaxInt64.
func add(sum uint64, count, rate int64) uint64 {
	high, low := bits.Mul64(uint64(max(count, 0)), uint64(rate))
	total, carry := bits.Add64(sum, low, 0)
	if high != 0 || carry != 0 || total > math.MaxInt64 {
		return math.MaxInt64
	}
	return total
}

// Tier is the price of requests whose prompt is longer than AboveTokens. It applies to the whole request, not only to
// the tokens above.
type Tier struct {
	AboveTokens int64 `yaml:"above_tokens"`
	Rates       `yaml:",inline"`
}

// checkTiers returns an error unless each tier prices every bucket that the row does: a bucket left out would fall back
// to another bucket's rate.
func checkTiers(base Rates, tiers []Tier) error {
	for i, tier := range tiers {
		if tier.AboveTokens < 1 || i > 0 && tier.AboveTokens <= tiers[i-1].AboveTokens {
			return fmt.Errorf("tiers[%d].above_tokens: must be above zero and above the one before", i)
		}
		if err := tier.check(); err != nil {
			return fmt.Errorf("tiers[%d]: %w", i, err)
		}
		row, own := base.own(), tier.own()
		for _, b := range provider.Buckets() {
			if row[b] != nil && own[b] == nil {
				return fmt.Errorf("tiers[%d].%s: is required, since the row has it", i, b.Tariff())
			}
		}
	}
	return nil
}
