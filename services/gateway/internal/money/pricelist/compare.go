package pricelist

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/vendors/host"
	"switchyard.dev/services/gateway/internal/vendors/modelid"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Model is a model that the policy or the price table knows.
type Model struct {
	provider.Target
	// Upstream is the vendor's own name of the model, Identity one name for it at all hosts; empty if not known.
	Upstream, Identity string
	// BaseURL is that of its provider; empty if the policy doesn't have the provider.
	BaseURL string
}

// Options of a comparison.
type Options struct {
	// Models are looked up; others of the list are unmapped.
	Models []Model
	// Table has the present prices.
	Table *price.Table
	// Threshold is the change, in percent of the present price, up to which a price is applied.
	Threshold float64
	// Accept applies changes beyond the threshold, and new models that cost nothing.
	Accept bool
	// Now is the moment whose prices are compared; new rows are in force from its day on.
	Now time.Time
}

// Change is a price of the list that the table doesn't have.
type Change struct {
	Row price.Row
	// Key is the list's entry.
	Key string
	// Differences are those to the present price; empty for a new model.
	Differences []price.Difference
	// Held reports whether the row is not applied: it is free, or differs by more than the threshold.
	Held bool
}

// Note is a model or an entry of the list with a remark.
type Note struct{ Name, Reason string }

// Report is the result of a comparison.
type Report struct {
	New, Changed []Change
	// Gone are models that the table prices and the list lacks.
	Gone []Note
	// Suspicious are models whose entry of the list is wrong; such prices are never applied.
	Suspicious []Note
	// Unmapped are the entries of the list that belong to none of the models.
	Unmapped []Note
	// Unchanged counts models whose price is the list's. Unlisted counts those that the list lacks and that are not Gone:
	// the table has no price of them, or the list has no prices of their host.
	Unchanged, Unlisted int
}

// Compare looks up the price of each model.
func (l *List) Compare(o Options) Report {
	var r Report
	used := make(map[*entry]bool)
	versions := make(map[string]bool)
	for _, row := range o.Table.Rows() {
		versions[row.Version] = true
	}
	for _, model := range o.Models {
		at := host.Of(model.Provider, model.BaseURL).Name
		found := l.find(at, &model)
		for _, e := range found {
			used[e] = true
		}
		present, priced := o.Table.At(model.Provider, model.Model, o.Now)
		switch {
		case len(found) == 0 && priced && l.hosts[at]:
			r.Gone = append(r.Gone, Note{model.String(), "the list has no price of it"})
		case len(found) == 0:
			r.Unlisted++
		default:
			r.add(l, &model, found, present, priced, o, versions)
		}
	}
	for _, e := range l.entries {
		if !used[e] {
			r.Unmapped = append(r.Unmapped, Note{e.key, e.problem})
		}
	}
	return r
}

// add compares the list's price of a model with the present one.
func (r *Report) add(l *List, model *Model, found []*entry, present price.Row, priced bool, o Options, versions map[string]bool) {
	e := found[0]
	if problem := l.problemOf(found); problem != "" {
		r.Suspicious = append(r.Suspicious, Note{model.String(), fmt.Sprintf("entry %q %s", e.key, problem)})
		return
	}
	change := Change{Key: e.key, Row: l.row(model, e, o.Now, versions)}
	if !priced {
		change.Held = isFree(&change.Row.Rates) && !o.Accept
		r.New = append(r.New, change)
		return
	}
	if change.Row.Rates.BatchPercent == nil {
		change.Row.Rates.BatchPercent = present.Rates.BatchPercent // The list rarely says it.
	}
	change.Differences = price.Differences(&present, &change.Row)
	if len(change.Differences) == 0 {
		r.Unchanged++
		return
	}
	for _, d := range change.Differences {
		change.Held = change.Held || math.Abs(d.Percent()) > o.Threshold && !o.Accept
	}
	r.Changed = append(r.Changed, change)
}

// find returns the entries of a model at its host: those of the vendor's name, of the policy's name, or of another name of
// the same model there, with the same inference profile.
func (l *List) find(host string, model *Model) []*entry {
	if host == "" {
		return nil
	}
	name := cmp.Or(model.Upstream, model.Model)
	for _, name := range []string{name, model.Model} {
		if found := l.byName[place{host, name}]; len(found) > 0 {
			return found
		}
	}
	var found []*entry
	profile, _ := modelid.SplitProfile(name)
	for _, e := range l.byIdentity[cmp.Or(model.Identity, modelid.Of(name))] {
		if e.host == host && e.profile == profile {
			found = append(found, e)
		}
	}
	return found
}

// problemOf returns why entries of one model at one host can't be used; empty if they can.
func (l *List) problemOf(found []*entry) string {
	first := found[0]
	for _, e := range found {
		if e.problem != "" {
			return e.problem
		}
		if !reflect.DeepEqual(first.rates, e.rates) || !reflect.DeepEqual(first.tiers, e.tiers) {
			return fmt.Sprintf("has other prices than entry %q of the same model", e.key)
		}
	}
	return l.outlier(first)
}

// maxRatio is how many times as much one host may ask for a model as all others; more is a wrong unit.
const maxRatio = 20

// outlier compares the prices of an entry with those of other hosts of the model.
func (l *List) outlier(e *entry) string {
	for _, b := range []provider.Bucket{provider.BucketInput, provider.BucketOutput} {
		least, most := price.Rate(math.MaxInt64), price.Rate(0)
		for _, other := range l.byFamily[familyOf(e.name, e.identity)] {
			if rate := other.rates.Rate(b); other.host != e.host && rate > 0 {
				least, most = min(least, rate), max(most, rate)
			}
		}
		rate := e.rates.Rate(b)
		if most > 0 && rate > 0 && (rate > maxRatio*most || rate < least/maxRatio) {
			return fmt.Sprintf("has %s %s, and other hosts of the model %s to %s", b.Tariff(), price.Text(b, rate), price.Text(b, least), price.Text(b, most))
		}
	}
	return ""
}

// isFree reports whether no price is above 0.
func isFree(r *price.Rates) bool {
	return !slices.ContainsFunc(provider.SidePrompt.Buckets(), func(b provider.Bucket) bool { return r.Rate(b) > 0 }) &&
		!slices.ContainsFunc(provider.SideCompletion.Buckets(), func(b provider.Bucket) bool { return r.Rate(b) > 0 }) &&
		!slices.ContainsFunc(provider.SidePieces.Buckets(), func(b provider.Bucket) bool { return r.Rate(b) > 0 })
}

// row returns the price table's row of an entry. It is in force from today on, or from the first day after that has no row
// yet: a row is never changed.
func (l *List) row(model *Model, e *entry, now time.Time, versions map[string]bool) price.Row {
	today := now.UTC().Truncate(24 * time.Hour)
	row := price.Row{
		Provider: model.Provider, Model: model.Model, EffectiveFrom: today, Rates: e.rates, Tiers: e.tiers, Reviewed: today,
		Source: "community price list (LiteLLM), SHA-256 " + l.Hash,
	}
	for {
		row.Version = row.Provider + "/" + row.Model + "@" + row.EffectiveFrom.Format(time.DateOnly)
		if !versions[row.Version] {
			versions[row.Version] = true
			return row
		}
		row.EffectiveFrom = row.EffectiveFrom.AddDate(0, 0, 1)
	}
}

// Rows returns the rows to apply, by provider and model.
func (r *Report) Rows() []price.Row {
	var rows []price.Row
	for _, change := range slices.Concat(r.New, r.Changed) {
		if !change.Held {
			rows = append(rows, change.Row)
		}
	}
	slices.SortFunc(rows, func(a, b price.Row) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return rows
}

// Held counts the changes that are not applied.
func (r *Report) Held() (n int) {
	for _, change := range slices.Concat(r.New, r.Changed) {
		if change.Held {
			n++
		}
	}
	return n
}
