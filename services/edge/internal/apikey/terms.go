package apikey

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// Terms are the limits of a key that the gateway enforces. The edge stores them and passes them on with each call. The
// zero Terms means none. Keys of one chain of rotations share what they count.
type Terms struct {
	// TokensPerMinute is the limit for each model; 0 means none.
	TokensPerMinute int64 `json:"tpm,omitempty"`
	// Models are the names that the key may use; empty means all.
	Models []string `json:"models,omitempty"`
	Budget Budget   `json:"budget,omitzero"`
	// Class is the priority in the gateway's queue; empty means ClassStandard.
	Class Class `json:"class,omitempty"`
}

// Budget is a ceiling for the spending in a period. The zero Budget means none.
type Budget struct {
	CeilingCents int64  `json:"ceiling_cents"`
	Period       Period `json:"period"`
}

// Period is the time after which spending counts from zero again.
type Period string

// The periods.
const (
	PeriodDay   Period = "day"
	PeriodMonth Period = "month"
	PeriodTotal Period = "total"
)

// Class is a priority.
type Class string

// The classes.
const (
	ClassInteractive Class = "interactive"
	ClassStandard    Class = "standard"
	ClassBulk        Class = "bulk"
)

const (
	maxTokens = 1 << 40
	maxModels = 32
	maxCents  = 1_000_000_000_000
	// maxModelsText bounds the JSON of all names in bytes, so that the header stays below 16 KiB.
	maxModelsText = 15 << 10
)

// The errors of terms that are out of range.
var (
	ErrTokensPerMinute = apierr.Invalid("tpm", "must be from 1 to "+strconv.Itoa(maxTokens)+" tokens per minute")
	ErrCeiling         = apierr.Invalid("budget.ceiling_cents", "must be from 1 to "+strconv.Itoa(maxCents))
	errPeriod          = apierr.Invalid("budget.period", "must be day, month or total")
	errClass           = apierr.Invalid("class", "must be interactive, standard or bulk")
)

// check returns an error that names the field and the rule that it violates.
func (t Terms) check() error {
	switch {
	case t.TokensPerMinute < 0 || t.TokensPerMinute > maxTokens:
		return ErrTokensPerMinute
	case t.Budget != Budget{} && (t.Budget.CeilingCents < 1 || t.Budget.CeilingCents > maxCents):
		return ErrCeiling
	case t.Budget != Budget{} && !slices.Contains([]Period{PeriodDay, PeriodMonth, PeriodTotal}, t.Budget.Period):
		return errPeriod
	case !slices.Contains([]Class{"", ClassInteractive, ClassStandard, ClassBulk}, t.Class):
		return errClass
	}
	return checkModels(t.Models)
}

func checkModels(names []string) error {
	if len(names) > maxModels {
		return apierr.Invalid("models", fmt.Sprintf("must hold at most %d names", maxModels))
	}
	for i, name := range names {
		switch {
		case name == "" || !caller.Printable(name):
			return apierr.Invalid("models", "a name must have 1 to 256 characters of printable ASCII without spaces")
		case slices.Contains(names[:i], name):
			return apierr.Invalid("models", "must not hold a name twice")
		}
	}
	if len(compact(names)) > maxModelsText {
		return apierr.Invalid("models", fmt.Sprintf("must have at most %d bytes as JSON", maxModelsText))
	}
	return nil
}

// normal returns the terms in the form in which they are stored: no models are nil.
func (t Terms) normal() Terms {
	if len(t.Models) == 0 {
		t.Models = nil
	}
	return t
}

// update changes the terms that u names, and adds their new values to the details of an audit entry; nil for those that
// are removed.
func (t *Terms) update(u Update, details map[string]any) {
	if u.TokensPerMinute != nil {
		t.TokensPerMinute = *u.TokensPerMinute
		details["tpm"] = orNil(t.TokensPerMinute)
	}
	if u.Models != nil {
		t.Models = *u.Models
		*t = t.normal()
		details["models"] = t.Models
	}
	if u.Budget != nil {
		t.Budget = *u.Budget
		details["budget"] = orNil(t.Budget)
	}
	if u.Class != nil {
		t.Class = *u.Class
		details["class"] = orNil(t.Class)
	}
}

// describe adds the terms that are set to the details of an audit entry.
func (t Terms) describe(details map[string]any) {
	for name, value := range map[string]any{
		"tpm": orNil(t.TokensPerMinute), "budget": orNil(t.Budget), "class": orNil(t.Class),
	} {
		if value != nil {
			details[name] = value
		}
	}
	if len(t.Models) > 0 {
		details["models"] = t.Models
	}
}

// orNil returns nil for a zero value.
func orNil[T comparable](value T) any {
	if value == *new(T) {
		return nil
	}
	return value
}

// String returns the terms as compact JSON, without those that are not set.
func (t Terms) String() string { return compact(t) }

// termsHeader returns the value of caller.HeaderKeyTerms for calls with the key; empty if it has no terms.
func (k *Key) termsHeader() string {
	if k.Terms.String() == "{}" {
		return ""
	}
	return compact(struct {
		Key string `json:"key"`
		Terms
	}{k.Chain(), k.Terms})
}

// compact returns the JSON of a value without white space and without escapes that only HTML needs.
func compact(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // texts and numbers always encode
	return strings.TrimSuffix(text.String(), "\n")
}

// ParseBudget parses "5000/month": a ceiling in cents, and its period.
func ParseBudget(text string) (Budget, error) {
	cents, period, _ := strings.Cut(text, "/")
	ceiling, err := strconv.ParseInt(cents, 10, 64)
	if err != nil || period == "" {
		return Budget{}, apierr.Invalid("budget", "want cents/period, such as 5000/month; the period is day, month or total")
	}
	b := Budget{CeilingCents: ceiling, Period: Period(period)}
	return b, Terms{Budget: b}.check()
}
