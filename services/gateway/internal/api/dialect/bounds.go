package dialect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/platform/apierr"
)

// Ranges of the numbers that bound what a call can cost. Tokens have the range of the gateway's own contract, choices
// that of OpenAI's reference.
const (
	maxTokens  = 10_000_000
	maxChoices = 128
)

// Names of the fields that bound a call's output, by meaning. Vendors and compatible servers differ in which of them
// they support, so all are read.
var (
	limitNames  = []string{"max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens"}
	choiceNames = []string{"n", "best_of"}
)

const (
	fieldThinkingBudget = "thinking_budget"
	fieldPrediction     = "prediction"
)

// budgets are objects that hold a number of thinking tokens.
var budgets = []struct{ object, field string }{{"thinking", "budget_tokens"}, {"reasoning", "max_tokens"}}

// guarded are the fields that decide what a call costs or what is checked before a vendor sees it. Parsers that fold
// case or treat "maxTokens" as "max_tokens" would find them in members that this gateway does not read.
var guarded = slices.Concat(limitNames, choiceNames, []string{
	fieldThinkingBudget, "thinking", "reasoning", fieldPrediction, "modalities", "audio",
	"service_tier", "web_search_options", "speed", "inference_geo", "mcp_servers", "container",
	"messages", "input", "instructions", "previous_response_id", "background", "store",
	"system", "tools", "tool_choice", "functions", "stop", "stop_sequences",
})

// readBounds returns the bounds that a body sets for its answer.
func readBounds(o *Object) (b inference.Bounds, err error) {
	if err := o.exact("", guarded); err != nil {
		return b, err
	}
	for _, name := range limitNames {
		n, err := o.whole(name, name, maxTokens)
		if err != nil {
			return b, err
		}
		if n > b.Output {
			b.Output, b.LimitField = n, name
		}
	}
	for _, name := range choiceNames {
		n, err := o.whole(name, name, maxChoices)
		if err != nil {
			return b, err
		}
		b.Choices = max(b.Choices, n)
	}
	if b.Thinking, err = o.whole(fieldThinkingBudget, fieldThinkingBudget, maxTokens); err != nil {
		return b, err
	}
	for _, budget := range budgets {
		n, err := o.budget(budget.object, budget.field)
		if err != nil {
			return b, err
		}
		b.Thinking = max(b.Thinking, n)
	}
	if m := o.find(fieldPrediction); m != nil { // The part that is not in the answer is billed as output too.
		b.Extra = int64(len(m.raw))
	}
	return b, nil
}

// budget returns a number of tokens inside a member that is an object.
func (o *Object) budget(object, field string) (int64, error) {
	m := o.find(object)
	if m == nil || len(m.raw) == 0 || m.raw[0] != '{' {
		return 0, nil
	}
	inner, err := Members(m.raw)
	if err != nil {
		return 0, apierr.Invalid(object, strings.TrimPrefix(apierr.From(err).Text, "body: "))
	}
	if err := inner.exact(object+".", []string{field}); err != nil {
		return 0, err
	}
	return inner.whole(field, object+"."+field, maxTokens)
}

// whole returns a member that is a number from 1 to most, written in digits only: parsers differ in how they read 1e2,
// 100.0 and "100". 0 is an absent one.
func (o *Object) whole(name, path string, most int64) (int64, error) {
	m := o.find(name)
	if m == nil || isNull(m.raw) {
		return 0, nil
	}
	return whole(path, m.raw, most)
}

// Tokens stores a number of tokens in *into; an absent or null one leaves it unchanged.
func (o *Object) Tokens(name string, into *int) error {
	raw := o.Raw(name)
	if raw == nil {
		return nil
	}
	n, err := whole(name, raw, maxTokens)
	if err == nil {
		*into = int(n)
	}
	return err
}

// whole returns a JSON number from 1 to most that is written in digits only.
func whole(path string, raw json.RawMessage, most int64) (int64, error) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, apierr.Invalid(path, fmt.Sprintf("must be a whole number from 1 to %d, written in digits only", most))
	}
	return n, nil
}

// exact refuses members that a tolerant parser could take for one of names: names in other letter case or without their
// underscores. No SDK writes them, and ignoring them would change what the caller asked for.
func (o *Object) exact(path string, names []string) error {
	for i := range o.members {
		m := &o.members[i]
		if m.taken || slices.Contains(names, m.name) {
			continue
		}
		plain := squeeze(m.name)
		for _, name := range names {
			if strings.EqualFold(plain, squeeze(name)) {
				return apierr.Invalid(path+shownName(m.name), fmt.Sprintf("unknown field; write %q", name))
			}
		}
	}
	return nil
}

// Unambiguous refuses an object at a path of a request that two parsers could read differently: with a duplicate name,
// or with a name that a tolerant parser could take for one of names. Other errors are left to the decoder.
func Unambiguous(path string, raw json.RawMessage, names ...string) error {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	o, err := Members(raw)
	if err != nil {
		return apierr.Invalid(path, strings.TrimPrefix(apierr.From(err).Text, "body: "))
	}
	return o.exact(path+".", names)
}

// shownName returns a name for an error, of bounded length.
func shownName(name string) string {
	const most = 64
	return strings.ToValidUTF8(name[:min(len(name), most)], "?")
}

var separators = strings.NewReplacer("_", "", "-", "")

// squeeze removes what separates the words of a name.
func squeeze(name string) string {
	if strings.IndexByte(name, '_') < 0 && strings.IndexByte(name, '-') < 0 {
		return name
	}
	return separators.Replace(name)
}
