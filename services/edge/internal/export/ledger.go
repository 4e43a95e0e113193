package export

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"switchyard.dev/services/edge/internal/billing"
)

// Billed is the gateway's billed feed, see billing.Feed.
type Billed interface {
	Read(ctx context.Context, q billing.Query) (billing.Page, error)
}

// LedgerFeed pages through the billed records of all organizations.
type LedgerFeed struct{ feed Billed }

// NewLedgerFeed returns the pages of a feed that reads all organizations.
func NewLedgerFeed(feed Billed) *LedgerFeed { return &LedgerFeed{feed} }

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
	const perCent, digits = 10_000_000_000, 10
	if pico%perCent == 0 {
		return strconv.FormatInt(pico/perCent, 10)
	}
	return fmt.Sprintf("%d.%s", pico/perCent, strings.TrimRight(fmt.Sprintf("%0*d", digits, pico%perCent), "0"))
}

// Page implements Pager. The feed's cursor belongs to its filters, which a Cursor never changes.
func (f *LedgerFeed) Page(ctx context.Context, c Cursor, limit int) (Page, error) {
	read, err := f.feed.Read(ctx, billing.Query{Since: c.Since, Until: c.Until, Cursor: c.Position, Limit: min(limit, billing.MaxPage)})
	if err != nil {
		return Page{}, err
	}
	page := Page{Next: read.Next, End: !read.More}
	for _, r := range read.Records {
		e, err := entryOf(r)
		if err != nil {
			return Page{}, err
		}
		page.Entries = append(page.Entries, e)
	}
	return page, nil
}
