package export

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"switchyard.dev/services/edge/internal/billing"
	"switchyard.dev/services/platform/feed"
)

// Tail is the gateway's billed feed, see billing.Tail.
type Tail interface {
	billing.Source
	// Waiting returns how many records are known to be behind a position, without a read.
	Waiting(ctx context.Context, p feed.Position) int
}

// LedgerFeed pages through the billed records of all organizations.
type LedgerFeed struct{ tail Tail }

// NewLedgerFeed returns the pages of a feed.
func NewLedgerFeed(t Tail) *LedgerFeed { return &LedgerFeed{t} }

var errNoID = errors.New("a record of the gateway's feed has no id")

// entryOf returns a record as a row of the source. Its moment is when it was recorded, as in reports of spend.
func entryOf(r billing.Record) (Entry, error) {
	if r.ID == "" {
		return Entry{}, errNoID
	}
	return Entry{ID: r.ID, Organization: r.Organization, At: r.RecordedAt.UTC(), Values: []Value{
		{"ledger.calls", "1"},
		{"ledger.completion_tokens", strconv.FormatInt(r.Completion, 10)},
		{"ledger.cost_cents", cents(r.Pico)},
		{"ledger.cost_pico_usd", strconv.FormatInt(r.Pico, 10)},
		{"ledger.prompt_tokens", strconv.FormatInt(r.Prompt, 10)},
		{"ledger.total_tokens", strconv.FormatInt(r.Tokens(), 10)},
	}}, nil
}

// cents returns an amount in pico-USD as an exact decimal number of cents.
func cents(pico int64) string {
	const perCent = 10_000_000_000
	if pico%perCent == 0 {
		return strconv.FormatInt(pico/perCent, 10)
	}
	fraction := strconv.FormatInt(perCent+pico%perCent, 10)[1:] // with its leading zeros
	return strconv.FormatInt(pico/perCent, 10) + "." + strings.TrimRight(fraction, "0")
}

// Page implements Pager.
func (f *LedgerFeed) Page(ctx context.Context, c Cursor, limit int) (Page, error) {
	after, err := billing.ParsePosition(c.Position)
	if err != nil {
		return Page{}, err
	}
	read, err := f.tail.Read(ctx, billing.Query{Since: c.Since, Until: c.Until, After: after, Limit: min(limit, billing.MaxPage)})
	if err != nil {
		return Page{}, err
	}
	page := Page{Entries: make([]Entry, 0, len(read.Records)), Next: read.Next.String(), End: !read.More}
	for _, r := range read.Records {
		e, err := entryOf(r)
		if err != nil {
			return Page{}, err
		}
		page.Entries = append(page.Entries, e)
	}
	return page, nil
}

// Waiting implements Pager.
func (f *LedgerFeed) Waiting(ctx context.Context, position string) int {
	p, err := billing.ParsePosition(position)
	if err != nil {
		return 0
	}
	return f.tail.Waiting(ctx, p)
}
