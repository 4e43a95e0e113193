package pricelist

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// maxListed is how many of each kind a report lists.
const maxListed = 20

// Write writes the report for people: the counts, and the first of each kind. Names of the list are quoted, since they may
// hold anything.
func (r *Report) Write(w io.Writer) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "new %d, changed %d, gone %d, suspicious %d, unmapped %d, unchanged %d, not in the list %d; not applied %d\n",
		len(r.New), len(r.Changed), len(r.Gone), len(r.Suspicious), len(r.Unmapped), r.Unchanged, r.Unlisted, r.Held())
	writeAll(&text, "new", r.New, Change.describeNew)
	writeAll(&text, "changed", r.Changed, Change.describe)
	writeAll(&text, "gone", r.Gone, Note.describe)
	writeAll(&text, "suspicious", r.Suspicious, Note.describe)
	writeAll(&text, "unmapped", r.Unmapped, Note.describe)
	_, err := w.Write(text.Bytes())
	return err
}

func writeAll[T any](text *bytes.Buffer, kind string, all []T, describe func(T) string) {
	for i, each := range all {
		if i == maxListed {
			fmt.Fprintf(text, "%s: and %d more\n", kind, len(all)-maxListed)
			return
		}
		fmt.Fprintf(text, "%s: %s\n", kind, describe(each))
	}
}

func (n Note) describe() string {
	if n.Reason == "" {
		return fmt.Sprintf("%q", n.Name)
	}
	return fmt.Sprintf("%q: %s", n.Name, n.Reason)
}

func (c Change) describeNew() string {
	var rates []string
	for _, b := range provider.Buckets() {
		if rate := c.Row.Rates.Rate(b); rate > 0 && (b == provider.BucketInput || b == provider.BucketOutput || b.Side() == provider.SidePieces) {
			rates = append(rates, b.Tariff()+" "+price.Text(b, rate))
		}
	}
	if len(rates) == 0 {
		rates = []string{"costs nothing"}
	}
	return c.name() + strings.Join(rates, ", ")
}

func (c Change) describe() string {
	parts := make([]string, 0, len(c.Differences))
	for _, d := range c.Differences {
		part := fmt.Sprintf("%s %s, was %s (%s)", d.Bucket.Tariff(), price.Text(d.Bucket, d.Now), price.Text(d.Bucket, d.Before), percent(d.Percent()))
		if d.AboveTokens > 0 {
			part = fmt.Sprintf("above %d tokens %s", d.AboveTokens, part)
		}
		parts = append(parts, part)
	}
	return c.name() + strings.Join(parts, "; ")
}

// name returns the model, the entry, and whether the change is applied.
func (c Change) name() string {
	held := ""
	if c.Held {
		held = ", not applied"
	}
	return fmt.Sprintf("%q (entry %q%s): ", c.Row.Provider+"/"+c.Row.Model, c.Key, held)
}

func percent(change float64) string {
	if math.IsInf(change, 0) {
		return "from nothing"
	}
	return fmt.Sprintf("%+.1f %%", change)
}
