// Package keyterm holds the terms of a product key: which models its calls may use, what they may spend, how many
// tokens they may use in a minute, and the class in which they are served. The edge owns the keys and sends the terms
// with each call; package api parses them, the serving pipeline enforces them. It does no I/O.
package keyterm

import (
	"slices"

	"github.com/go-json-experiment/json"

	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/screen"
)

// Terms are the terms of a product key. The zero Terms has none.
type Terms struct {
	// Key is the one under which the terms count: the first of a chain of rotations.
	Key string
	// TokensPerMinute is the limit for each model; 0 is none.
	TokensPerMinute int64
	// Models are those that the key may use, by name, by provider and name, or by the vendor's own name; empty is all.
	Models []string
	Budget Budget
	Class  Class
}

// Budget is a ceiling for the spending of a key.
type Budget struct {
	// CeilingCents is the ceiling for a period, in cents; 0 is none.
	CeilingCents int64
	Period       organization.Period
}

// Limited reports whether there is a ceiling.
func (b Budget) Limited() bool { return b.CeilingCents > 0 }

// Class is how urgent the calls of a key are. The zero Class means ClassStandard.
type Class string

// The classes.
const (
	ClassInteractive Class = "interactive"
	ClassStandard    Class = "standard"
	ClassBulk        Class = "bulk"
)

// Weight returns the share of a class relative to the others.
func (c Class) Weight() int {
	switch c {
	case ClassInteractive:
		return 4
	case ClassBulk:
		return 1
	case ClassStandard:
	}
	return 2
}

// Bounds of terms.
const (
	// maxHeader bounds the header, in bytes.
	maxHeader = 16 << 10
	maxTokens = 1 << 40
	maxModels = 32
	maxCents  = 1e12
)

// document is the form of the header. A nil member is absent.
type document struct {
	Key    string    `json:"key"`
	TPM    *int64    `json:"tpm"`
	Models *[]string `json:"models"`
	Budget *struct {
		CeilingCents int64               `json:"ceiling_cents"`
		Period       organization.Period `json:"period"`
	} `json:"budget"`
	Class *Class `json:"class"`
}

// Parse returns the terms of an X-Key-Terms header; an empty header is the zero Terms. The error is an *apierr.Error
// that names the header and repeats no value.
func Parse(header string) (Terms, error) {
	if header == "" {
		return Terms{}, nil
	}
	if len(header) > maxHeader {
		return Terms{}, invalid("must have at most 16384 bytes")
	}
	var d document
	if err := json.Unmarshal([]byte(header), &d, json.RejectUnknownMembers(true)); err != nil {
		return Terms{}, invalid("must be one JSON object with the members key, tpm, models, budget and class")
	}
	if rule := d.check(); rule != "" {
		return Terms{}, invalid(rule)
	}
	return d.terms(), nil
}

func invalid(rule string) error { return apierr.Invalid(caller.HeaderKeyTerms, rule) }

// check returns the rule that the document breaks; empty for none.
func (d *document) check() string {
	switch {
	case d.Key == "" || !caller.Printable(d.Key):
		return "key: is required and must be printable ASCII, at most 256 characters"
	case screen.IDLooksLikeKey(d.Key):
		return "key: seems to hold a key; send an identifier"
	case d.TPM != nil && (*d.TPM < 1 || *d.TPM > maxTokens):
		return "tpm: must be from 1 to 1099511627776"
	case d.Models != nil && (len(*d.Models) < 1 || len(*d.Models) > maxModels):
		return "models: must have 1 to 32 names; leave it out to allow all"
	case d.Models != nil && slices.ContainsFunc(*d.Models, func(name string) bool { return name == "" || !caller.Printable(name) }):
		return "models: a name must have 1 to 256 characters of printable ASCII"
	case d.Budget != nil && (d.Budget.CeilingCents < 1 || d.Budget.CeilingCents > maxCents):
		return "budget.ceiling_cents: must be from 1 to 1000000000000"
	case d.Budget != nil && !oneOf(d.Budget.Period, organization.PeriodDay, organization.PeriodMonth, organization.PeriodTotal):
		return "budget.period: must be day, month or total"
	case d.Class != nil && !oneOf(*d.Class, ClassInteractive, ClassStandard, ClassBulk):
		return "class: must be interactive, standard or bulk"
	}
	return ""
}

func oneOf[T comparable](value T, of ...T) bool { return slices.Contains(of, value) }

// terms returns the terms of a checked document.
func (d *document) terms() Terms {
	t := Terms{Key: d.Key}
	if d.TPM != nil {
		t.TokensPerMinute = *d.TPM
	}
	if d.Models != nil {
		t.Models = *d.Models
	}
	if d.Budget != nil {
		t.Budget = Budget{d.Budget.CeilingCents, d.Budget.Period}
	}
	if d.Class != nil {
		t.Class = *d.Class
	}
	return t
}
