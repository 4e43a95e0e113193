package pricelist

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/vendors/modelid"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// entry is one model of one host, as the list has it.
type entry struct {
	key string
	// host is the list's name for the host, name what it calls the model, profile the prefix of Bedrock's inference
	// profile in it, which may have another price.
	host, name, profile, identity string
	rates                         price.Rates
	tiers                         []price.Tier
	// problem is why the prices can't be used; empty if they can.
	problem string
}

// prices are the fields that are read. A price of a piece counts only in the modes that pieceOf has; prices per second of
// a chat are those of provisioned capacity. max_tokens and the other limits are not read: they mean the input in one
// entry and the output in another.
var prices = map[string]provider.Bucket{
	"input_cost_per_token":                      provider.BucketInput,
	"output_cost_per_token":                     provider.BucketOutput,
	"cache_read_input_token_cost":               provider.BucketCacheRead,
	"cache_creation_input_token_cost":           provider.BucketCacheWrite,
	"cache_creation_input_token_cost_above_1hr": provider.BucketCacheWriteLong,
	"input_cost_per_image_token":                provider.BucketImageInput,
	"input_cost_per_audio_token":                provider.BucketAudioInput,
	"output_cost_per_reasoning_token":           provider.BucketReasoning,
	"output_cost_per_image_token":               provider.BucketImageOutput,
	"output_cost_per_audio_token":               provider.BucketAudioOutput,
	"output_cost_per_image":                     provider.BucketImages,
	"input_cost_per_character":                  provider.BucketCharacters,
	"input_cost_per_second":                     provider.BucketAudioSeconds,
	"input_cost_per_query":                      provider.BucketSearches,
}

// pieceOf is the piece that a mode is billed by, where it has a price.
var pieceOf = map[string]provider.Bucket{
	"image_generation":    provider.BucketImages,
	"image_edit":          provider.BucketImages,
	"audio_speech":        provider.BucketCharacters,
	"audio_transcription": provider.BucketAudioSeconds,
	"rerank":              provider.BucketSearches,
}

// withoutOutput are the modes whose models put no tokens out, so that an absent price of output is 0.
var withoutOutput = []string{"embedding", "rerank", "moderation"}

// tierField matches the prices of long prompts, such as "input_cost_per_token_above_200k_tokens".
var tierField = regexp.MustCompile(`^(.+)_above_([0-9]{1,6})k_tokens$`)

// newEntry reads an entry.
func newEntry(key string, object gjson.Result) *entry {
	e := &entry{key: key}
	found := reading{tiers: make(map[int64]*price.Rates)}
	of, mode := "", "chat"
	object.ForEach(func(field, value gjson.Result) bool {
		switch name := field.Str; name {
		case "litellm_provider":
			of = value.String()
		case "mode":
			mode = value.String()
		case "tiered_pricing":
			found.problem = "has tiered_pricing, a list of ranges, which is not read"
		case "input_cost_per_token_batches":
			found.batchInput, _ = decimal(value.Raw)
		default:
			found.read(name, value)
		}
		return true
	})
	e.host = listedHost(of)
	e.name = listedName(key, of, e.host)
	e.profile, _ = modelid.SplitProfile(e.name)
	e.identity = modelid.Of(e.name)
	e.rates, e.tiers, e.problem = found.finish(mode)
	return e
}

// reading is an entry's prices while they are read.
type reading struct {
	rates      price.Rates
	set        [provider.BucketCount]bool
	tiers      map[int64]*price.Rates
	batchInput price.Rate
	problem    string
}

// read reads a field, if it is a price of the table.
func (r *reading) read(field string, value gjson.Result) {
	above := int64(0)
	if parts := tierField.FindStringSubmatch(field); parts != nil && prices[parts[1]].Side() != provider.SidePieces {
		field = parts[1]
		thousands, _ := strconv.ParseInt(parts[2], 10, 64) // The pattern bounds it.
		above = thousands * 1000
		if above == 0 {
			return
		}
	}
	b, known := prices[field]
	if !known || value.Type == gjson.Null {
		return
	}
	rate, err := decimal(value.Raw)
	switch most := largest(b); {
	case err != nil:
		r.problem = field + ": " + err.Error()
		return
	case rate > most:
		r.problem = fmt.Sprintf("%s: %s USD for one is more than %s: a price of a thousand or a million, most likely", field, plainNumber(value.Raw), each(most))
		return
	}
	if above == 0 {
		r.rates.Set(b, rate)
		r.set[b] = true
		return
	}
	if r.tiers[above] == nil {
		r.tiers[above] = new(price.Rates)
	}
	r.tiers[above].Set(b, rate)
}

// finish returns the prices of a model of a mode, or why they can't be used.
func (r *reading) finish(mode string) (rates price.Rates, tiers []price.Tier, problem string) {
	if r.problem != "" {
		return rates, nil, r.problem
	}
	free := r.rates.Rate(provider.BucketInput) == 0 && r.rates.Rate(provider.BucketOutput) == 0 && r.rates.Rate(provider.BucketImageOutput) == 0
	if r.set[provider.BucketImages] && !free {
		return rates, nil, "has prices of images by the piece and by the token, of which only one can apply"
	}
	if piece, has := pieceOf[mode]; has && r.set[piece] {
		if !free {
			return rates, nil, fmt.Sprintf("has prices by the piece and by the token for the mode %s, of which only one can apply", mode)
		}
		rates.Set(piece, r.rates.Rate(piece))
		return rates, nil, ""
	}
	switch {
	case !r.set[provider.BucketInput] && r.set[provider.BucketAudioSeconds]:
		return rates, nil, "has a price per second and none of tokens: provisioned capacity"
	case !r.set[provider.BucketInput]:
		return rates, nil, "has no input_cost_per_token; absent is not zero"
	case !r.set[provider.BucketOutput] && !slices.Contains(withoutOutput, mode):
		return rates, nil, "has no output_cost_per_token; absent is not zero"
	}
	for _, b := range provider.Buckets() {
		if b.Side() != provider.SidePieces && r.set[b] {
			rates.Set(b, r.rates.Rate(b))
		}
	}
	if rates.Output == nil {
		rates.Set(provider.BucketOutput, 0)
	}
	rates.BatchPercent = r.batchPercent()
	tiers, problem = r.finishTiers(rates)
	return rates, tiers, problem
}

// finishTiers returns the prices of long prompts, shortest first. Each prices the whole request. A bucket that a tier
// leaves out costs as much there as its wider bucket, so that no long prompt costs less than it may.
func (r *reading) finishTiers(base price.Rates) (tiers []price.Tier, problem string) {
	for above, rates := range r.tiers {
		if rates.Input == nil || rates.Output == nil && *base.Output != 0 {
			return nil, fmt.Sprintf("has prices above %d tokens without those of input and output", above)
		}
		if rates.Output == nil {
			rates.Set(provider.BucketOutput, 0)
		}
		for _, b := range provider.Buckets() {
			if b.Side() != provider.SidePieces && r.set[b] {
				rates.Set(b, rates.Rate(b))
			}
		}
		tiers = append(tiers, price.Tier{AboveTokens: above, Rates: *rates})
	}
	slices.SortFunc(tiers, func(a, b price.Tier) int { return int(a.AboveTokens - b.AboveTokens) })
	return tiers, ""
}

// batchPercent returns what a request in a batch job costs, in percent; nil if the list doesn't say it in whole percent.
func (r *reading) batchPercent() *int {
	input := r.rates.Rate(provider.BucketInput)
	if r.batchInput <= 0 || input <= 0 || r.batchInput > input || r.batchInput*100%input != 0 {
		return nil
	}
	return new(int(r.batchInput * 100 / input))
}
