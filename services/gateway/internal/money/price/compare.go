package price

import (
	"math"
	"slices"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Difference is a rate that two rows have differently. Rates are in pico-USD for one of what the bucket counts; a rate
// that a row doesn't set is that of the wider bucket, or 0.
type Difference struct {
	Bucket provider.Bucket
	// AboveTokens is the length of the prompts that it applies to; 0 is any.
	AboveTokens int64
	Before, Now Rate
}

// Percent returns how much the rate changed, in percent of the one before; infinite where that was 0.
func (d Difference) Percent() float64 {
	if d.Before == 0 {
		return math.Inf(1)
	}
	return (float64(d.Now) - float64(d.Before)) / float64(d.Before) * wholePercent
}

// Differences returns the rates that differ, for prompts of any length and for those above each limit of a tier. A bucket
// that neither row sets follows its wider bucket and is left out.
func Differences(before, now *Row) []Difference {
	limits := []int64{0}
	for _, tier := range slices.Concat(before.Tiers, now.Tiers) {
		limits = append(limits, tier.AboveTokens)
	}
	slices.Sort(limits)
	var all []Difference
	for _, limit := range slices.Compact(limits) {
		old, own := before.at(limit+1).own(), now.at(limit+1).own()
		for _, b := range provider.Buckets() {
			d := Difference{Bucket: b, AboveTokens: limit, Before: valueOf(effective(&old, b)), Now: valueOf(effective(&own, b))}
			if d.Before != d.Now && (old[b] != nil || own[b] != nil) {
				all = append(all, d)
			}
		}
	}
	return all
}

func valueOf(r *Rate) Rate {
	if r == nil {
		return 0
	}
	return *r
}

// Rate returns the rate that applies to a bucket, its own or that of its wider bucket, in pico-USD for one of what the
// bucket counts; 0 if there is none.
func (r *Rates) Rate(b provider.Bucket) Rate {
	own := r.own()
	return valueOf(effective(&own, b))
}

// Set sets the rate of a bucket, in pico-USD for one of what the bucket counts.
func (r *Rates) Set(b provider.Bucket, rate Rate) {
	each := Each(rate)
	switch b {
	case provider.BucketInput:
		r.Input = &rate
	case provider.BucketCacheRead:
		r.CacheRead = &rate
	case provider.BucketCacheWrite:
		r.CacheWrite = &rate
	case provider.BucketCacheWriteLong:
		r.CacheWriteLong = &rate
	case provider.BucketImageInput:
		r.ImageInput = &rate
	case provider.BucketAudioInput:
		r.AudioInput = &rate
	case provider.BucketOutput:
		r.Output = &rate
	case provider.BucketReasoning:
		r.Reasoning = &rate
	case provider.BucketAudioOutput:
		r.AudioOutput = &rate
	case provider.BucketImageOutput:
		r.ImageOutput = &rate
	case provider.BucketImages:
		r.Image = &each
	case provider.BucketCharacters:
		r.Character = &rate
	case provider.BucketAudioSeconds:
		r.AudioSecond = &each
	case provider.BucketSearches:
		r.Search = &each
	}
}
