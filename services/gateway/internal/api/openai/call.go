package openai

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/platform/apierr"
)

// relayTo returns the call of a path.
func relayTo(operation provider.Operation, path string) *dialect.Call {
	return &dialect.Call{Relay: provider.Relay{Operation: operation, API: openai.DialectName, Path: path}}
}

// usualModeration is the model of moderations that name none. Source: OpenAI API reference, "Create moderation".
const usualModeration = "omni-moderation-latest"

// Moderation reads a moderation. Vendors bill it by tokens or not at all.
func Moderation(s dialect.Source) (*dialect.Call, error) {
	o, err := dialect.Parse(s.Body)
	if err != nil {
		return nil, err
	}
	c := relayTo(provider.OperationModerations, openai.PathModerations)
	if !o.Has("input") {
		return nil, apierr.Invalid("input", "is required")
	}
	input := o.Raw("input")
	c.Relay.Estimate = provider.Estimate(len(input), 0)
	c.Relay.Most.Input = int64(len(input)) + aroundInput
	err = c.Finish(o, s.Body, "input")
	if c.Model == "" {
		c.Model = usualModeration
	}
	c.Relay.Stream = false
	return c, err
}

// Bounds of what vendors count in relayed calls in addition to their content, in tokens. aroundInput is for an input of
// text, as much as for a chat of one message: a vendor's mistaken usage is billed up to the bound. aroundOutput is for
// sound and for the text of a recording.
const (
	aroundInput  = 256 + 32
	aroundOutput = 4096
)

// Limits of numbers in a completion. usualTokens is the length of an answer that names none. Source: OpenAI API
// reference, "Create completion".
const (
	maxTokens   = 10_000_000
	maxChoices  = 128
	usualTokens = 16
	// maxPrompts bounds the prompts of one call.
	maxPrompts = 2048
)

// Completion reads a completion of texts, the API before chats.
func Completion(s dialect.Source) (*dialect.Call, error) {
	o, err := dialect.Parse(s.Body)
	if err != nil {
		return nil, err
	}
	c := relayTo(provider.OperationCompletions, openai.PathCompletions)
	tokens, err := o.Whole("max_tokens", maxTokens, usualTokens)
	if err != nil {
		return nil, err
	}
	choices, err := o.Whole("n", maxChoices, 1)
	if err != nil {
		return nil, err
	}
	best, err := o.Whole("best_of", maxChoices, 1)
	if err != nil {
		return nil, err
	}
	input, prompts, err := promptsOf(o)
	if err != nil {
		return nil, err
	}
	c.Relay.Estimate = provider.Usage{Input: input}
	c.Relay.Most = provider.Usage{
		Input:  int64(len(o.Raw("prompt"))+len(o.Raw("suffix"))) + aroundInput,
		Output: tokens * max(choices, best) * prompts,
	}
	c.Relay.OutputLimit, c.Relay.Answers = tokens, max(choices, best)*prompts
	var echo bool
	if err := o.Take("echo", &echo); err != nil {
		return nil, err
	}
	if echo { // Some servers count what they repeat.
		c.Relay.Most.Output += c.Relay.Most.Input * max(choices, best)
	}
	return c, c.Finish(o, s.Body, "prompt", "suffix", "max_tokens", "n", "best_of", "echo", "stream_options")
}

// promptsOf estimates the tokens of a prompt and returns how many prompts it is: a text, several, one of tokens, or
// several of them.
func promptsOf(o *dialect.Object) (tokens, prompts int64, err error) {
	raw := o.Raw("prompt")
	estimate := provider.Estimate(len(raw), 0).Input
	switch list := gjson.ParseBytes(raw); {
	case raw == nil || list.Type == gjson.String:
		return estimate, 1, nil
	case !list.IsArray():
		return 0, 0, apierr.Invalid("prompt", "must be a string, an array of strings, or tokens")
	case list.Get("0").Type == gjson.Number:
		numbers, err := dialect.Elements("prompt", raw)
		return int64(len(numbers)), 1, err
	}
	items, err := dialect.Elements("prompt", raw)
	if err == nil && (len(items) == 0 || len(items) > maxPrompts) {
		err = apierr.Invalid("prompt", "must hold 1 to 2048 prompts")
	}
	return estimate, int64(len(items)), err
}

// Speech reads a text to speak. Vendors bill its characters, or tokens of text and sound.
func Speech(s dialect.Source) (*dialect.Call, error) {
	o, err := dialect.Parse(s.Body)
	if err != nil {
		return nil, err
	}
	c := relayTo(provider.OperationSpeech, openai.PathSpeech)
	var input, instructions, format string
	for _, field := range []struct {
		name string
		into *string
	}{{"input", &input}, {"instructions", &instructions}, {"stream_format", &format}} {
		if err := o.Take(field.name, field.into); err != nil {
			return nil, err
		}
	}
	if input == "" {
		return nil, apierr.Invalid("input", "is required")
	}
	characters := int64(utf8.RuneCountInString(input))
	c.Relay.Estimate = provider.Estimate(len(input)+len(instructions), 0)
	c.Relay.Estimate.Characters = characters
	c.Relay.Estimate.AudioOutput = characters*spokenTokens/spokenCharacters + 1
	c.Relay.Most = provider.Usage{
		Input: int64(len(input)+len(instructions)) + aroundInput, Characters: characters, Output: mostSpoken*characters + aroundOutput,
	}
	err = c.Finish(o, s.Body, "input", "instructions", "stream_format")
	c.Relay.Stream = format == "sse"
	return c, err
}

// A second of speech has some 15 characters, and some 20 tokens of sound. A slow voice, or one that pauses, has mostSpoken
// tokens for each character.
const (
	spokenCharacters = 15
	spokenTokens     = 20
	mostSpoken       = 16
)

// PlainImages are the fields of a request for images that every provider of images takes.
var PlainImages = map[string]bool{
	"model": true, "prompt": true, "n": true, "size": true, "quality": true, "response_format": true, "output_format": true,
	fieldUser: true,
}

// fieldUser names the end user; no image depends on it.
const fieldUser = "user"

// WithoutUser returns a request for images without its end user, for providers that don't know the field.
func WithoutUser(body []byte) []byte {
	if !gjson.GetBytes(body, fieldUser).Exists() {
		return body
	}
	without, err := sjson.DeleteBytes(bytes.Clone(body), fieldUser)
	if err != nil {
		return body
	}
	return without
}

// IsPlainImages reports whether a request for images has only fields that every provider of images takes.
func IsPlainImages(body []byte) bool {
	plain := true
	gjson.ParseBytes(body).ForEach(func(key, _ gjson.Result) bool {
		plain = plain && PlainImages[key.Str]
		return plain
	})
	return plain
}

// Images reads a request for images with fields of OpenAI's own.
func Images(s dialect.Source) (*dialect.Call, error) {
	return imagesOf(s, openai.PathImages)
}

// ImageEdit reads a request to edit images: a form, or JSON that names them.
func ImageEdit(s dialect.Source) (*dialect.Call, error) {
	if isJSON(s) {
		return imagesOf(s, openai.PathImageEdits)
	}
	return imageForm(s, openai.PathImageEdits)
}

// ImageVariation reads a request for variations of an image.
func ImageVariation(s dialect.Source) (*dialect.Call, error) {
	return imageForm(s, openai.PathVariations)
}

func imagesOf(s dialect.Source, path string) (*dialect.Call, error) {
	o, err := dialect.Parse(s.Body)
	if err != nil {
		return nil, err
	}
	c := relayTo(provider.OperationImages, path)
	count, err := o.Whole("n", maxImages, 1)
	if err != nil {
		return nil, err
	}
	partial, err := partialOf(o.Raw("partial_images"))
	if err != nil {
		return nil, err
	}
	sizeImages(c, count, partial, int64(len(o.Raw("prompt"))), imagesIn(o))
	return c, c.Finish(o, s.Body, "n", "partial_images", "prompt", "image", "images", "mask")
}

// imagesIn returns how many images a request names in its input.
func imagesIn(o *dialect.Object) (images int64) {
	for _, name := range []string{"image", "images", "mask"} {
		switch value := gjson.ParseBytes(o.Raw(name)); {
		case value.IsArray():
			images += value.Get("#").Int()
		case value.Exists():
			images++
		}
	}
	return images
}

// partialOf returns the number of previews that are asked for, from 0 to 3.
func partialOf(raw json.RawMessage) (int64, error) {
	switch string(raw) {
	case "", "0":
		return 0, nil
	case "1", "2", "3":
		return int64(raw[0] - '0'), nil
	}
	return 0, apierr.Invalid("partial_images", "must be a whole number from 0 to 3")
}

// maxImages bounds the images of one call.
const maxImages = 10

// Tokens that vendors count for images: largestImage for a generated one, and the same for one in the input.
const largestImage = 8192

func sizeImages(c *dialect.Call, count, partial, prompt, inputs int64) {
	c.Relay.Estimate = provider.Usage{Images: count, Input: (prompt + 3) / 4}
	c.Relay.Most = provider.Usage{
		Images: count, Input: prompt + aroundInput + inputs*largestImage, Output: count * (largestImage + partial*largestImage),
	}
}

func imageForm(s dialect.Source, path string) (*dialect.Call, error) {
	f, err := dialect.ParseForm(s)
	if err != nil {
		return nil, err
	}
	images, err := f.Files("image", "image[]", "mask")
	if err != nil {
		return nil, err
	}
	if len(images) == 0 {
		return nil, apierr.Invalid("image", "is required")
	}
	count, err := f.Whole("n", maxImages, 1)
	if err != nil {
		return nil, err
	}
	text, err := f.Text("partial_images")
	if err != nil {
		return nil, err
	}
	partial, err := partialOf(json.RawMessage(text))
	if err != nil {
		return nil, err
	}
	prompt, err := f.Text("prompt")
	if err != nil {
		return nil, err
	}
	c := relayTo(provider.OperationImages, path)
	sizeImages(c, count, partial, int64(len(prompt)), int64(len(images)))
	return c, c.FinishForm(f)
}
