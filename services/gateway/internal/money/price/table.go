package price

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/strictyaml"
)

// Row is the price of a model from a day on, in UTC.
type Row struct {
	Provider, Model string
	// Version identifies the row permanently: ledger entries keep it.
	Version       string
	EffectiveFrom time.Time
	// EffectiveTo is the first day on which the price is no longer in force; zero means no end.
	EffectiveTo time.Time
	Rates       Rates
	// Tiers are the prices of long prompts, shortest first.
	Tiers []Tier
	// Source is where the price was read, Reviewed is when. After ReviewEvery the price is due for review again. All
	// three are empty for the operator's own models.
	Source      string
	Reviewed    time.Time
	ReviewEvery time.Duration
}

// holds reports whether the row's price is in force at a moment.
func (r *Row) holds(at time.Time) bool {
	return !at.Before(r.EffectiveFrom) && (r.EffectiveTo.IsZero() || at.Before(r.EffectiveTo))
}

// at returns the rates for a prompt of so many tokens.
func (r *Row) at(prompt int64) *Rates {
	rates := &r.Rates
	for i := range r.Tiers {
		if prompt > r.Tiers[i].AboveTokens {
			rates = &r.Tiers[i].Rates
		}
	}
	return rates
}

// NewRow returns the price of one of the operator's own models, in force without a beginning or end. Its version
// changes with its rates.
func NewRow(providerName, model string, rates Rates) (Row, error) {
	if err := rates.check(); err != nil {
		return Row{}, err
	}
	text, err := yaml.Marshal(rates)
	if err != nil {
		return Row{}, fmt.Errorf("price of %s/%s: %w", providerName, model, err)
	}
	sum := sha256.Sum256(text)
	version := providerName + "/" + model + "@" + hex.EncodeToString(sum[:4])
	return Row{Provider: providerName, Model: model, Version: version, Rates: rates}, nil
}

// Table finds prices. It does not change after it was made.
type Table struct {
	rows map[key][]Row // by model, newest first
}

type key struct{ provider, model string }

// defaultReview is the number of days between reviews of a provider's prices if the file sets none.
const defaultReview = 90

// document is the price file.
type document struct {
	Providers []struct {
		Provider string `yaml:"provider"`
		// Source and Reviewed are where the prices were read, and when.
		Source          string `yaml:"source"`
		Reviewed        string `yaml:"reviewed"`
		ReviewEveryDays int    `yaml:"review_every_days"`
		// BatchPercent is that of the models that set none.
		BatchPercent *int    `yaml:"batch_percent"`
		Models       []entry `yaml:"models"`
	} `yaml:"providers"`
}

type entry struct {
	Model         string `yaml:"model"`
	EffectiveFrom string `yaml:"effective_from"`
	EffectiveTo   string `yaml:"effective_to"`
	Rates         `yaml:",inline"`
	Tiers         []Tier `yaml:"tiers"`
}

// Parse reads a price file in YAML. An unknown field is an error, and so is a file without content, which is a file that
// was cut off.
func Parse(text []byte) ([]Row, error) {
	var doc document
	switch err := strictyaml.Decode(text, &doc); {
	case errors.Is(err, strictyaml.ErrEmpty):
		return nil, fmt.Errorf("prices: %w; want providers, or `providers: []` for none", err)
	case err != nil:
		return nil, fmt.Errorf("prices: %w", err)
	}
	var rows []Row
	for i, p := range doc.Providers {
		if p.Provider == "" {
			return nil, fmt.Errorf("prices: providers[%d].provider: is required", i)
		}
		common := Row{Provider: p.Provider, Source: p.Source, ReviewEvery: time.Duration(cmp.Or(p.ReviewEveryDays, defaultReview)) * 24 * time.Hour}
		var err error
		if common.Reviewed, err = day("reviewed", p.Reviewed, true); err != nil {
			return nil, fmt.Errorf("prices: %s: %w", p.Provider, err)
		}
		if p.ReviewEveryDays < 0 {
			return nil, fmt.Errorf("prices: %s: review_every_days: must be above zero", p.Provider)
		}
		for _, m := range p.Models {
			m.BatchPercent = cmp.Or(m.BatchPercent, p.BatchPercent)
			row, err := m.row(common)
			if err != nil {
				return nil, fmt.Errorf("prices: %s/%s: %w", p.Provider, m.Model, err)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// row checks an entry and returns its row. The argument holds what the provider's entries have in common.
func (e entry) row(row Row) (Row, error) {
	var from, to error
	row.EffectiveFrom, from = day("effective_from", e.EffectiveFrom, false)
	row.EffectiveTo, to = day("effective_to", e.EffectiveTo, true)
	err := errors.Join(from, to, e.check(), checkTiers(e.Rates, e.Tiers))
	if e.Model == "" {
		err = errors.Join(err, errors.New("model: is required"))
	}
	if !row.EffectiveTo.IsZero() && !row.EffectiveTo.After(row.EffectiveFrom) {
		err = errors.Join(err, errors.New("effective_to: must be after effective_from"))
	}
	row.Model, row.Rates, row.Tiers = e.Model, e.Rates, e.Tiers
	row.Version = row.Provider + "/" + e.Model + "@" + e.EffectiveFrom
	return row, err
}

// day reads a date. If optional is true, an empty text is the zero time.
func day(field, text string, optional bool) (time.Time, error) {
	if text == "" && optional {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: want a day such as 2026-01-31", field)
	}
	return t, nil
}

// NewTable returns a table of rows. Two rows of the same version are an error, because a version is permanent.
func NewTable(rows []Row) (*Table, error) {
	t := &Table{rows: make(map[key][]Row)}
	versions := make(map[string]bool, len(rows))
	for _, row := range rows {
		if versions[row.Version] {
			return nil, fmt.Errorf("prices: %s appears twice", row.Version)
		}
		versions[row.Version] = true
		at := key{row.Provider, row.Model}
		t.rows[at] = append(t.rows[at], row)
	}
	for _, of := range t.rows {
		slices.SortStableFunc(of, func(a, b Row) int { return b.EffectiveFrom.Compare(a.EffectiveFrom) })
	}
	return t, nil
}

// Cost is the cost of a usage and the version of the row that priced it. Known is false if no row prices the model at
// that moment; then nothing is billed.
type Cost struct {
	Amount  Pico
	Version string
	Known   bool
}

// Cost returns the cost of a model's usage at a moment.
func (t *Table) Cost(providerName, model string, at time.Time, u provider.Usage) Cost {
	rows := t.rows[key{providerName, model}]
	for i := range rows {
		if row := &rows[i]; row.holds(at) {
			return Cost{Amount: row.at(u.Prompt()).cost(&u), Version: row.Version, Known: true}
		}
	}
	return Cost{}
}

// CostInBatch returns the cost of a usage by a request in a batch job. Where that is less than the list price, the version
// says so.
func (t *Table) CostInBatch(providerName, model string, at time.Time, u provider.Usage) Cost {
	cost := t.Cost(providerName, model, at, u)
	row, known := t.At(providerName, model, at)
	if percent := row.Rates.batchPercent(); known && percent < wholePercent {
		cost.Amount, cost.Version = share(cost.Amount, percent), fmt.Sprintf("%s#batch%d", cost.Version, percent)
	}
	return cost
}

// Rows returns all prices, sorted by version.
func (t *Table) Rows() []Row {
	var rows []Row
	for _, of := range t.rows {
		rows = append(rows, of...)
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Version, b.Version) })
	return rows
}

// At returns the row that prices a model at a moment, or false if there is none.
func (t *Table) At(providerName, model string, at time.Time) (Row, bool) {
	for _, row := range t.rows[key{providerName, model}] {
		if row.holds(at) {
			return row, true
		}
	}
	return Row{}, false
}

// Due returns the moment from which the row is due for review, or the zero time for the operator's own prices.
func (r *Row) Due() time.Time {
	switch {
	case r.ReviewEvery == 0:
		return time.Time{}
	case r.Reviewed.IsZero():
		return r.EffectiveFrom.Add(r.ReviewEvery)
	}
	return r.Reviewed.Add(r.ReviewEvery)
}

// Drift returns the rows in force at a moment whose review is overdue, longest overdue first, and the number of all
// rows in force.
func (t *Table) Drift(now time.Time) (overdue []Row, total int) {
	for of := range t.rows {
		row, ok := t.At(of.provider, of.model, now)
		if !ok {
			continue
		}
		total++
		if due := row.Due(); !due.IsZero() && now.After(due) {
			overdue = append(overdue, row)
		}
	}
	slices.SortFunc(overdue, func(a, b Row) int {
		return cmp.Or(a.Due().Compare(b.Due()), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return overdue, total
}
