package trace

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Filter selects records; empty fields select all.
type Filter struct {
	Organization                                     string
	Request, Run, Operation, Provider, Model, Status string
	// ReplayOf selects the requests that repeated this one.
	ReplayOf     string
	Since, Until time.Time
	// Before is the position of the last record of the previous page; zero for the first page.
	Before Position
	// Limit is the most records of the page, at least 1.
	Limit int
}

// Position is the place of a record in a list.
type Position struct {
	StartedAt time.Time
	ID        uuid.UUID
}

// compareNewestFirst orders records as a list shows them.
func compareNewestFirst(a, b *Record) int {
	return cmp.Or(b.StartedAt.Compare(a.StartedAt), bytes.Compare(b.ID[:], a.ID[:]))
}

// End returns an upper bound for the start of selected records, or zero if there is none.
func (f *Filter) End() time.Time {
	end := f.Before.StartedAt
	if end.IsZero() || !f.Until.IsZero() && f.Until.Before(end) {
		end = f.Until
	}
	return end
}

// Names returns a hash of each name that all selected records have: a request, a run, a request that was repeated. Few
// segments have records with one of them.
func (f *Filter) Names() []int64 {
	r, names := f.exampleRecord(), labels{}
	r.addNames(names)
	return names.hashes()
}

// Facets returns a hash of each property that all selected records have: an operation, a provider, a model, a status.
// Many segments have records with one of them.
func (f *Filter) Facets() []int64 {
	r, facets := f.exampleRecord(), labels{}
	r.addFacets(facets)
	return facets.hashes()
}

// exampleRecord returns a record with the values that the filter asks for.
func (f *Filter) exampleRecord() Record {
	r := Record{
		Organization: f.Organization, RequestID: f.Request, Run: f.Run, Operation: f.Operation, Provider: f.Provider, Model: f.Model, Status: f.Status,
	}
	if f.ReplayOf != "" {
		r.Parent, r.ParentKind = f.ReplayOf, ParentReplay
	}
	return r
}

// matches reports whether the filter selects a record.
func (f *Filter) matches(r *Record) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	if !same(f.Organization, r.Organization) || !same(f.Request, r.RequestID) || !same(f.Run, r.Run) || !same(f.ReplayOf, r.replayed()) ||
		!same(f.Operation, r.Operation) || !same(f.Provider, r.Provider) || !same(f.Model, r.Model) || !same(f.Status, r.Status) {
		return false
	}
	return (f.Since.IsZero() || !r.StartedAt.Before(f.Since)) && (f.Until.IsZero() || r.StartedAt.Before(f.Until)) &&
		(f.Before.StartedAt.IsZero() || compareNewestFirst(&Record{StartedAt: f.Before.StartedAt, ID: f.Before.ID}, r) < 0)
}

// replayed returns the id of the request that a request repeated; empty for none.
func (r *Record) replayed() string {
	if r.ParentKind != ParentReplay {
		return ""
	}
	return r.Parent
}

// addNames adds the names that a record is found by. Hashes of runs and replays include the organization, because two
// organizations may use the same names. Hashes of requests don't: support looks a request up without knowing its
// organization.
func (r *Record) addNames(names labels) {
	names.add("request", "", r.RequestID)
	names.add("run", r.Organization, r.Run)
	names.add("replay", r.Organization, r.replayed())
}

// addFacets adds the properties that lists select by.
func (r *Record) addFacets(facets labels) {
	facets.add("operation", "", r.Operation)
	facets.add("provider", "", r.Provider)
	facets.add("model", "", r.Model)
	facets.add("status", "", r.Status)
}

// labels is a set of names or properties.
type labels map[label]struct{}

type label struct{ kind, organization, text string }

func (l labels) add(kind, organization, text string) {
	if text != "" {
		l[label{kind, organization, text}] = struct{}{}
	}
}

// hashes returns the first 64 bits of each label's SHA-256, in order.
func (l labels) hashes() []int64 {
	all := make([]int64, 0, len(l))
	for one := range l {
		sum := sha256.Sum256([]byte(one.kind + "\x00" + one.organization + "\x00" + one.text))
		all = append(all, int64(binary.BigEndian.Uint64(sum[:])))
	}
	slices.Sort(all)
	return all
}

// LatestOfEach returns the latest record of each organization, newest first and at most limit.
func LatestOfEach(records []Record, limit int) []Record {
	slices.SortFunc(records, func(a, b Record) int { return compareNewestFirst(&a, &b) })
	seen := make(map[string]bool)
	records = slices.DeleteFunc(records, func(r Record) bool {
		again := seen[r.Organization]
		seen[r.Organization] = true
		return again
	})
	return records[:min(len(records), limit)]
}

// Page gathers the page that a filter selects. The zero Page is not usable; see NewPage.
type Page struct {
	filter Filter
	now    time.Time
	found  []*Record
}

// NewPage returns an empty page.
func NewPage(f Filter, now time.Time) *Page { return &Page{filter: f, now: now} }

// Add adds the records that belong to the page.
func (p *Page) Add(records []Record) {
	for i := range records {
		if r := records[i]; r.ExpiresAt.After(p.now) && p.filter.matches(&r) {
			p.found = append(p.found, &r)
		}
	}
	slices.SortFunc(p.found, compareNewestFirst)
	p.found = p.found[:min(len(p.found), p.filter.Limit)]
}

// Complete reports whether the page is full and every record that started at or before last sorts after it.
func (p *Page) Complete(last time.Time) bool {
	return len(p.found) == p.filter.Limit && p.found[p.filter.Limit-1].StartedAt.After(last)
}

// Records returns the page, newest first.
func (p *Page) Records() []Record {
	records := make([]Record, len(p.found))
	for i, r := range p.found {
		records[i] = *r
	}
	return records
}
