package export

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// Author is the author of a back-fill, for the audit: the name of a service token or of a user of the command line, and
// the request, if any.
type Author struct{ Name, Request string }

// Archive is what operators see and start.
type Archive interface {
	// List returns a destination's cursors: those that go on, then at most limit back-fills, the newest first.
	List(ctx context.Context, destination string, limit int) ([]Cursor, error)
	// Backfill adds a copy of a cursor for each source, unless the destination already has most unfinished back-fills of
	// that source. It adds an audit entry if it adds a cursor.
	Backfill(ctx context.Context, by Author, c Cursor, sources []Source, most int) (added []int64, err error)
	// Refused returns the given identifiers whose events a destination refused.
	Refused(ctx context.Context, destination string, identifiers []string) ([]string, error)
	// Refusals returns refused events by identifier, after one.
	Refusals(ctx context.Context, destination, after string, limit int) ([]Refusal, error)
}

const (
	// maxBackfills bounds the unfinished back-fills of a destination and source. shown bounds the listed back-fills,
	// examined the back-fills that refuseRepeats compares with a new one.
	maxBackfills = 8
	shown        = 32
	examined     = 1000
	// previewPages bounds the pages of each source that a preview reads.
	previewPages = 100
)

// Manager shows what exports do, and starts back-fills.
type Manager struct {
	settings Settings
	archive  Archive
	pagers   map[Source]Pager
}

// NewManager returns a Manager. Without settings it has no destinations.
func NewManager(settings Settings, archive Archive, pagers map[Source]Pager) *Manager {
	return &Manager{settings, archive, pagers}
}

// Status is a destination and its cursors.
type Status struct {
	Destination Destination
	Cursors     []Cursor
}

// Status returns all destinations in the order of the settings.
func (m *Manager) Status(ctx context.Context) ([]Status, error) {
	all := make([]Status, 0, len(m.settings.Destinations))
	for _, d := range m.settings.Destinations {
		cursors, err := m.archive.List(ctx, d.Name, shown)
		if err != nil {
			return nil, fmt.Errorf("list cursors of %s: %w", d.Name, err)
		}
		all = append(all, Status{d, cursors})
	}
	return all, nil
}

func (m *Manager) destination(name string) (Destination, error) {
	at := slices.IndexFunc(m.settings.Destinations, func(d Destination) bool { return d.Name == name })
	if at < 0 {
		return Destination{}, apierr.NotFound("destination")
	}
	return m.settings.Destinations[at], nil
}

// sources returns the sources that a destination reads.
func (d Destination) sources() (read []Source) {
	for _, s := range Sources {
		if d.reads(s) {
			read = append(read, s)
		}
	}
	return read
}

// checkRange refuses a range that is not of whole hours, or has no rows. The present hour has those that are known by now.
func checkRange(from, to, now time.Time) error {
	for _, bound := range []struct {
		name string
		at   time.Time
	}{{"from", from}, {"to", to}} {
		switch {
		case bound.at.IsZero():
			return apierr.Invalid(bound.name, "is required, an RFC 3339 time")
		case !bound.at.Truncate(time.Hour).Equal(bound.at):
			return apierr.Invalid(bound.name, "must be on the hour (UTC)")
		}
	}
	switch {
	case !from.Before(to):
		return apierr.Invalid("from", "must be before to")
	case to.After(now.Truncate(time.Hour).Add(time.Hour)):
		return apierr.Invalid("to", "must not be after the end of the present hour")
	case now.Sub(from) > Kept:
		return apierr.Invalid("from", fmt.Sprintf("must be within the last %d days", int(Kept/(24*time.Hour))))
	}
	return nil
}

// Selection says which events a back-fill sends.
type Selection string

// Selections. Without one a back-fill sends every event, but is refused if some of them could count twice.
const (
	OnlyRefused Selection = "refused" // events that the destination refused
	Everything  Selection = "all"     // every event, even if it counts twice
)

// Backfill is a range of usage to be sent to a destination, with the events' original identifiers.
type Backfill struct {
	Destination string
	From, To    time.Time
	Events      Selection
}

// check validates a back-fill. It returns the destination, and the cursor without its source.
func (m *Manager) check(b Backfill, now time.Time) (Destination, Cursor, error) {
	d, err := m.destination(b.Destination)
	if err != nil {
		return d, Cursor{}, err
	}
	if b.Events != "" && b.Events != OnlyRefused && b.Events != Everything {
		return d, Cursor{}, apierr.Invalid("events", `must be "refused" or "all", or absent`)
	}
	return d, Cursor{Destination: d.Name, Since: b.From, Until: b.To, OnlyRefused: b.Events == OnlyRefused}, checkRange(b.From, b.To, now)
}

// Backfill adds back-fills, one for each source, and returns their numbers.
func (m *Manager) Backfill(ctx context.Context, by Author, b Backfill, now time.Time) ([]int64, error) {
	d, c, err := m.check(b, now)
	if err != nil {
		return nil, err
	}
	if b.Events == "" {
		if err := m.refuseRepeats(ctx, d, c, now); err != nil {
			return nil, err
		}
	}
	added, err := m.archive.Backfill(ctx, by, c, d.sources(), maxBackfills)
	if err != nil {
		return nil, fmt.Errorf("add a back-fill of %s: %w", d.Name, err)
	}
	if len(added) == 0 {
		return nil, apierr.New(apierr.KindConflict, apierr.ReasonConflict, fmt.Sprintf("destination has %d unfinished back-fills; wait for one to end", maxBackfills))
	}
	return added, nil
}

// refuseRepeats refuses a back-fill if the destination already got some of its usage and no longer recognizes repeats
// of it.
func (m *Manager) refuseRepeats(ctx context.Context, d Destination, c Cursor, now time.Time) error {
	known := now.Add(-d.Kind.memory())
	if d.Kind.memory() == 0 || !c.Since.Before(known) {
		return nil
	}
	sent, err := m.archive.List(ctx, d.Name, examined)
	if err != nil {
		return fmt.Errorf("list cursors of %s: %w", d.Name, err)
	}
	for _, other := range sent {
		from := c.Since
		if other.Since.After(from) {
			from = other.Since
		}
		ends := !other.Until.IsZero() && !from.Before(other.Until)
		if other.Sent == 0 || ends || !from.Before(c.Until) || !from.Before(known) {
			continue
		}
		return apierr.New(apierr.KindConflict, apierr.ReasonConflict, fmt.Sprintf("from: usage from %s on was already sent to %s, which no longer "+
			"recognizes repeats of it, so it would count twice; set events to %q to send only refused events, or to %q to send everything",
			from.UTC().Format(time.RFC3339), d.Name, OnlyRefused, Everything))
	}
	return nil
}

// Refusals returns events that a destination refused, by identifier after one.
func (m *Manager) Refusals(ctx context.Context, destination, after string, limit int) ([]Refusal, error) {
	if _, err := m.destination(destination); err != nil {
		return nil, err
	}
	return m.archive.Refusals(ctx, destination, after, limit)
}

// Preview is what would be sent.
type Preview struct {
	// Meters has a sum for each metric, customer and name, in their order.
	Meters []MeterSum
	// Complete is false if a source has more than what was read.
	Complete bool
}

// MeterSum is how many events a meter of a customer would get, and the exact sum of their values.
type MeterSum struct {
	Metric, Customer, Name string
	Events                 int
	Sum                    string
}

// PreviewNext returns what would be sent to a destination from where its cursors are. It leaves out the events of a page
// that are settled already.
func (m *Manager) PreviewNext(ctx context.Context, destination string, now time.Time) (Preview, error) {
	d, err := m.destination(destination)
	if err != nil {
		return Preview{}, err
	}
	cursors, err := m.archive.List(ctx, d.Name, 0)
	if err != nil {
		return Preview{}, fmt.Errorf("list cursors of %s: %w", d.Name, err)
	}
	cursors = slices.DeleteFunc(cursors, func(c Cursor) bool { return !c.Until.IsZero() })
	for _, source := range d.sources() {
		if !slices.ContainsFunc(cursors, func(c Cursor) bool { return c.Source == source }) {
			cursors = append(cursors, Cursor{Source: source, Since: now.UTC().Truncate(time.Hour)})
		}
	}
	return m.preview(ctx, d, cursors, now)
}

// PreviewBackfill returns what a back-fill would send.
func (m *Manager) PreviewBackfill(ctx context.Context, b Backfill, now time.Time) (Preview, error) {
	d, c, err := m.check(b, now)
	if err != nil {
		return Preview{}, err
	}
	var cursors []Cursor
	for _, source := range d.sources() {
		c.Source = source
		cursors = append(cursors, c)
	}
	return m.preview(ctx, d, cursors, now)
}

// meterKey is what a preview sums up by.
type meterKey struct{ metric, customer, name string }

// total is a sum of a preview.
type total struct {
	events int
	sum    big.Rat
}

func (m *Manager) preview(ctx context.Context, d Destination, cursors []Cursor, now time.Time) (Preview, error) {
	totals, complete := make(map[meterKey]*total), true
	for _, c := range cursors {
		if m.pagers[c.Source] == nil || !d.reads(c.Source) {
			continue
		}
		end := false
		for n := 0; n < previewPages && !end; n++ {
			page, err := m.pagers[c.Source].Page(ctx, c, d.Kind.page())
			if err != nil {
				return Preview{}, err
			}
			open, _, err := pageEvents(ctx, m.archive, d, c, page)
			if err != nil {
				return Preview{}, err
			}
			if !d.Kind.forgets(c.UnsureSince, now) { // Otherwise the events are set aside.
				add(totals, open)
			}
			c.Position, c.Settled, c.UnsureSince, end = page.Next, nil, time.Time{}, page.End
		}
		complete = complete && end
	}
	return Preview{sorted(totals), complete}, nil
}

func add(totals map[meterKey]*total, events []Event) {
	for _, e := range events {
		key := meterKey{e.Metric, e.Customer, e.Name}
		if totals[key] == nil {
			totals[key] = new(total)
		}
		totals[key].events++
		if amount, ok := new(big.Rat).SetString(e.Amount); ok {
			totals[key].sum.Add(&totals[key].sum, amount)
		}
	}
}

func sorted(totals map[meterKey]*total) []MeterSum {
	sums := make([]MeterSum, 0, len(totals))
	for key, t := range totals {
		sum := t.sum.FloatString(10)
		sums = append(sums, MeterSum{key.metric, key.customer, key.name, t.events, strings.TrimSuffix(strings.TrimRight(sum, "0"), ".")})
	}
	slices.SortFunc(sums, func(a, b MeterSum) int {
		return strings.Compare(a.Metric+"\x00"+a.Customer, b.Metric+"\x00"+b.Customer)
	})
	return sums
}
