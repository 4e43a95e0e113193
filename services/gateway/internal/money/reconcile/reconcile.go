// Package reconcile compares what vendors bill with what was metered. An invoice
// is read and matched by pure functions, in exact money; the result is stored
// once. Package api takes invoices in, internal/postgres sums the ledger and
// keeps results.
package reconcile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// ReasonKeyReused refuses an idempotency key that came with another invoice.
const ReasonKeyReused apierr.Reason = "idempotency_key_reused"

// Line is what a vendor bills for a model, or for all.
type Line struct {
	Provider string
	// Model is empty for all of the provider's that no other line names.
	Model  string
	Amount Money
}

// Invoice is an invoice to compare with what was metered.
type Invoice struct {
	// Start is included, End is not.
	Start, End time.Time
	Lines      []Line
	// Tolerance is the difference of a line that still counts as matched.
	Tolerance Money
	// Ref is the vendor's number of the invoice, may be empty.
	Ref string
}

// Check refuses an invoice that could be read in two ways. The error is an
// *apierr.Error that names the field.
func (i *Invoice) Check() error {
	if !i.End.After(i.Start) {
		return apierr.Invalid("period_end", "must be after period_start")
	}
	if len(i.Lines) == 0 {
		return apierr.Invalid("lines", "must hold a line, or csv must")
	}
	seen := make(map[[2]string]bool, len(i.Lines))
	for n, line := range i.Lines {
		at := [2]string{line.Provider, line.Model}
		if seen[at] {
			return apierr.Invalid(fmt.Sprintf("lines[%d]", n), fmt.Sprintf("provider %s and model %s are there twice; add the amounts up", screen.Quote(line.Provider), screen.Quote(line.Model)))
		}
		seen[at] = true
	}
	return nil
}

// Providers that the invoice names, each once.
func (i *Invoice) Providers() []string {
	var all []string
	for _, line := range i.Lines {
		all = append(all, line.Provider)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Hash is the same for the same invoice, whatever the order of its lines.
func (i *Invoice) Hash() []byte {
	lines := slices.Clone(i.Lines)
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%d %d %s %q\n", i.Start.UnixNano(), i.End.UnixNano(), i.Tolerance, i.Ref)
	for _, line := range lines {
		_, _ = fmt.Fprintf(sum, "%q %q %s\n", line.Provider, line.Model, line.Amount)
	}
	return sum.Sum(nil)
}

// Metered is what the ledger has of a model in the period, paid for by the
// fleet's credentials.
type Metered struct {
	Provider, Model string
	Calls           int64
	Cost            Money
	// Estimated is the part of Cost whose tokens were not reported in full.
	Estimated Money
}

// Status of a line, or of an invoice, which is Matched or Delta.
type Status string

// The statuses. Unexplained is billed and nothing metered, Unbilled is metered
// and no line bills it.
const (
	Matched     Status = "matched"
	Delta       Status = "delta"
	Unexplained Status = "unexplained"
	Unbilled    Status = "unbilled"
)

// Compared is a line beside the ledger.
type Compared struct {
	Line
	Metered, Estimated Money
	Calls              int64
	Status             Status
}

// Delta is what was billed less what was metered.
func (c Compared) Delta() Money { return c.Amount.Minus(c.Metered) }

// Result is an invoice beside the ledger.
type Result struct {
	ID uuid.UUID
	// Sequence orders results, once they are stored.
	Sequence int64
	Invoice
	Status Status
	// Compared are empty in a list.
	Compared []Compared
	// Billed and Metered are the sums of all lines.
	Billed, Metered Money
	CreatedAt       time.Time
	CreatedBy       string
}

// Compare puts an invoice beside what was metered for its providers. The lines
// stay in their order; what no line bills comes after them, by provider and model.
func Compare(invoice Invoice, metered []Metered) Result {
	result := Result{Invoice: invoice, Status: Matched}
	lines := make(map[[2]string]int, len(invoice.Lines))
	for i, line := range invoice.Lines {
		lines[[2]string{line.Provider, line.Model}] = i
		result.Compared = append(result.Compared, Compared{Line: line})
	}
	billed := len(result.Compared)
	slices.SortFunc(metered, func(a, b Metered) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	for _, m := range metered {
		at, ok := lines[[2]string{m.Provider, m.Model}]
		if !ok {
			at, ok = lines[[2]string{m.Provider, ""}]
		}
		if !ok {
			at = len(result.Compared)
			result.Compared = append(result.Compared, Compared{Line: Line{Provider: m.Provider, Model: m.Model}})
		}
		c := &result.Compared[at]
		c.Metered, c.Estimated, c.Calls = c.Metered.Plus(m.Cost), c.Estimated.Plus(m.Estimated), c.Calls+m.Calls
	}
	for i := range result.Compared {
		c := &result.Compared[i]
		c.Status = c.judge(i < billed, invoice.Tolerance)
		if c.Status != Matched {
			result.Status = Delta
		}
		result.Billed, result.Metered = result.Billed.Plus(c.Amount), result.Metered.Plus(c.Metered)
	}
	return result
}

func (c Compared) judge(billed bool, tolerance Money) Status {
	switch {
	case c.Delta().Within(tolerance):
		return Matched
	case !billed:
		return Unbilled
	case c.Calls == 0:
		return Unexplained
	}
	return Delta
}

// Store sums the ledger and keeps results.
type Store interface {
	// Metered sums what was metered for providers in a period.
	Metered(ctx context.Context, start, end time.Time, providers []string) ([]Metered, error)
	// Keep stores a result under a key, with its audit. Where the key is taken it
	// gives the first result, and the error is an *apierr.Error if that was of
	// another invoice.
	Keep(ctx context.Context, key string, r Result) (kept Result, repeated bool, err error)
	// Find gives the result of a key; false where there is none.
	Find(ctx context.Context, key string, hash []byte) (Result, bool, error)
	// Get reads one; an *apierr.Error when it is not there.
	Get(ctx context.Context, id uuid.UUID) (Result, error)
	// List pages results, newest first, without lines; before is the sequence of the
	// last one of the page before, 0 for the first.
	List(ctx context.Context, before int64, limit int) ([]Result, error)
	// Forget deletes at most limit results that were made before a moment.
	Forget(ctx context.Context, before time.Time, limit int) (int, error)
}

// Service reconciles invoices.
type Service struct{ Store }

// Reconcile compares an invoice with the ledger, once: the same key again gives
// the first result. An empty key is that of the invoice itself.
func (s Service) Reconcile(ctx context.Context, key string, invoice Invoice, by string, now time.Time) (result Result, repeated bool, err error) {
	if err := invoice.Check(); err != nil {
		return Result{}, false, err
	}
	hash := invoice.Hash()
	if key = "key:" + key; key == "key:" {
		key = fmt.Sprintf("sha256:%x", hash)
	}
	if result, repeated, err = s.Find(ctx, key, hash); err != nil || repeated {
		return result, repeated, err
	}
	metered, err := s.Metered(ctx, invoice.Start, invoice.End, invoice.Providers())
	if err != nil {
		return Result{}, false, err
	}
	result = Compare(invoice, metered)
	if result.ID, err = uuid.NewV7(); err != nil {
		return Result{}, false, fmt.Errorf("id of a reconciliation: %w", err)
	}
	result.CreatedAt, result.CreatedBy = now, by
	return s.Keep(ctx, key, result)
}
