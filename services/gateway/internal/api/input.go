package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

// Bounds of what one request embeds: texts or token sequences, tokens of one sequence, and of all sequences. The plan
// applies a model's own limit.
const (
	maxInputs   = 2048
	maxSequence = 128 << 10
	maxTokens   = 1 << 20
)

const (
	inputPath = "input"
	inputRule = "must be a string, an array of strings, an array of tokens or an array of token arrays"
	countRule = "must hold 1 to 2048 texts or token arrays"
	tokenRule = "must be a token: a whole number from 0 to 2147483647"
)

// toInput returns the input of an embedding: one text or several, or token sequences in place of texts. All items are
// of one kind.
func toInput(raw []byte) (e provider.Embedding, err error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return e, apierr.Invalid(inputPath, "is required")
	case raw[0] == '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return e, refuse(inputPath, err)
		}
		e.Input = []string{text}
		return e, checkTexts(e.Input, false)
	case raw[0] != '[':
		return e, apierr.Invalid(inputPath, inputRule)
	case jsoncheck.TooDeep(raw):
		return e, apierr.Invalid(inputPath, jsoncheck.RuleDepth)
	case !jsoncheck.Valid(raw):
		return e, refuse(inputPath, json.Unmarshal(raw, new([]json.RawMessage)))
	}
	switch list := gjson.ParseBytes(raw); list.Get("0").Type {
	case gjson.Number:
		sequence, err := toTokens(list)
		if err != nil {
			return e, within(inputPath, err)
		}
		e.Tokens = [][]int32{sequence}
		return e, nil
	case gjson.JSON:
		if list.Get("0").IsArray() {
			e.Tokens, err = toSequences(list)
			return e, err
		}
	case gjson.Null, gjson.False, gjson.True, gjson.String:
	}
	e.Input, err = toTexts(raw)
	return e, err
}

// toTexts returns an array of texts.
func toTexts(raw []byte) ([]string, error) {
	var items []*string
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, notText(raw)
	}
	texts := make([]string, len(items))
	for i, item := range items {
		if item == nil {
			return nil, apierr.Invalid(dialect.At(inputPath, i), "must be a string")
		}
		texts[i] = *item
	}
	return texts, checkTexts(texts, true)
}

// notText returns the error of the first item that is not a string.
func notText(raw []byte) error {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return refuse(inputPath, err)
	}
	for i, item := range items {
		if item[0] != '"' && string(item) != "null" {
			return apierr.Invalid(dialect.At(inputPath, i), "must be a string")
		}
	}
	return apierr.Invalid(inputPath, inputRule)
}

func checkTexts(texts []string, several bool) error {
	if len(texts) == 0 || len(texts) > maxInputs {
		return apierr.Invalid(inputPath, countRule)
	}
	for i, text := range texts {
		switch {
		case text != "":
		case several:
			return apierr.Invalid(dialect.At(inputPath, i), "must not be empty")
		default:
			return apierr.Invalid(inputPath, "must not be empty")
		}
	}
	return nil
}

// toSequences returns an array of token arrays.
func toSequences(list gjson.Result) (sequences [][]int32, err error) {
	total := 0
	list.ForEach(func(_, item gjson.Result) bool {
		var sequence []int32
		if sequence, err = toTokens(item); err != nil {
			err = within(dialect.At(inputPath, len(sequences)), err)
			return false
		}
		sequences = append(sequences, sequence)
		switch total += len(sequence); {
		case len(sequences) > maxInputs:
			err = apierr.Invalid(inputPath, countRule)
		case total > maxTokens:
			err = apierr.Invalid(inputPath, fmt.Sprintf("must hold at most %d tokens in all", maxTokens))
		}
		return err == nil
	})
	return sequences, err
}

// toTokens returns one token array.
func toTokens(list gjson.Result) ([]int32, error) {
	if !list.IsArray() {
		return nil, apierr.Invalid(whole, "must be an array of tokens")
	}
	tokens, ok := digits(list.Raw)
	switch {
	case !ok:
		return nil, notToken(list)
	case len(tokens) > maxSequence:
		return nil, apierr.Invalid(whole, fmt.Sprintf("must hold at most %d tokens", maxSequence))
	}
	return tokens, nil
}

// digits returns an array of numbers that consist of digits only, as every tokenizer writes them; false for any other
// array and for an empty one.
func digits(list string) (tokens []int32, ok bool) {
	inside := list[1 : len(list)-1]
	tokens = make([]int32, 0, strings.Count(inside, ",")+1)
	for item := range strings.SplitSeq(inside, ",") {
		token, err := strconv.ParseUint(strings.Trim(item, " \t\r\n"), 10, 31)
		if err != nil {
			return nil, false
		}
		tokens = append(tokens, int32(token))
	}
	return tokens, true
}

// notToken returns the error of the first item that is not a token.
func notToken(list gjson.Result) error {
	for i, item := range list.Array() {
		if _, ok := digits("[" + item.Raw + "]"); !ok {
			return apierr.Invalid(dialect.At("", i), tokenRule)
		}
	}
	return apierr.Invalid(whole, "must not be empty")
}
