package price

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/services/gateway/internal/provider"
)

// Row is the price of a model from a day on.
type Row struct {
	Provider, Model string
	// Version names the row for good: a ledger entry keeps it.
	Version       string
	EffectiveFrom time.Time
	Rates         Rates
}

// NewRow prices a model of the operator's own from the start of time. Its
// version changes with its rates.
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

// Table finds prices. It is never changed after it was made.
type Table struct {
	rows map[key][]Row // of a model, newest first
}

type key struct{ provider, model string }

// document is the price file.
type document struct {
	Providers []struct {
		Provider string `yaml:"provider"`
		// Source and Reviewed say where the prices were read, and when.
		Source   string `yaml:"source"`
		Reviewed string `yaml:"reviewed"`
		Models   []struct {
			Model         string `yaml:"model"`
			EffectiveFrom string `yaml:"effective_from"`
			Rates         `yaml:",inline"`
		} `yaml:"models"`
	} `yaml:"providers"`
}

// Parse reads a price file (YAML, strict: an unknown field is an error).
func Parse(text []byte) ([]Row, error) {
	var doc document
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("prices: %w", err)
	}
	var rows []Row
	for i, p := range doc.Providers {
		if p.Provider == "" {
			return nil, fmt.Errorf("prices: providers[%d].provider: is required", i)
		}
		for _, m := range p.Models {
			from, err := time.Parse(time.DateOnly, m.EffectiveFrom)
			if err == nil {
				err = m.check()
			}
			if m.Model == "" {
				err = errors.Join(err, errors.New("model: is required"))
			}
			if err != nil {
				return nil, fmt.Errorf("prices: %s/%s: %w", p.Provider, m.Model, err)
			}
			rows = append(rows, Row{
				Provider: p.Provider, Model: m.Model, EffectiveFrom: from, Rates: m.Rates,
				Version: p.Provider + "/" + m.Model + "@" + m.EffectiveFrom,
			})
		}
	}
	return rows, nil
}

// NewTable indexes rows. Two of one version are an error: a version is for good.
func NewTable(rows []Row) (*Table, error) {
	t := &Table{rows: make(map[key][]Row)}
	versions := make(map[string]bool, len(rows))
	for _, row := range rows {
		if versions[row.Version] {
			return nil, fmt.Errorf("prices: %s is there twice", row.Version)
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

// Cost is what a usage costs and by which row. Known is false when no row
// prices the model at that moment; then nothing is billed.
type Cost struct {
	Amount  Pico
	Version string
	Known   bool
}

// Cost prices a usage of a model as of a moment.
func (t *Table) Cost(providerName, model string, at time.Time, u provider.Usage) Cost {
	for _, row := range t.rows[key{providerName, model}] {
		if !row.EffectiveFrom.After(at) {
			return Cost{Amount: row.Rates.cost(u), Version: row.Version, Known: true}
		}
	}
	return Cost{}
}
