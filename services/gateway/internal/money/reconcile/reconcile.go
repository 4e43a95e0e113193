// Package reconcile compares vendors' invoices with the metered costs. An invoice is read and matched by pure
// functions, in exact money; the result is stored once. Package api accepts invoices; internal/postgres sums the ledger
// and stores results.
package reconcile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/governance/amount"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// ReasonKeyReused is the reason of a refusal because the idempotency key was used with another invoice.
const ReasonKeyReused apierr.Reason = "idempotency_key_reused"

// Line is the amount that a vendor bills for one model, or for all.
type Line struct {
	Provider string
	// Model is empty for all of the provider's models that have no line of their own.
	Model  string
	Amount amount.Amount
}

// Invoice is an invoice to compare with the metered costs.
type Invoice struct {
	// The period; Start is inclusive, End exclusive.
	Start, End time.Time
	Lines      []Line
	// Tolerance is the largest difference at which a line still counts as matched.
	Tolerance amount.Amount
	// Ref is the vendor's invoice number; may be empty.
	Ref string
}

// Check returns an error if the invoice is ambiguous. The error is an *apierr.Error that names the field.
func (i *Invoice) Check() error {
	if !i.End.After(i.Start) {
		return apierr.Invalid("period_end", "must be after period_start")
	}
	if len(i.Lines) == 0 {
		return apierr.Invalid("lines", "must hold at least one line, unless csv does")
	}
	seen := make(map[[2]string]bool, len(i.Lines))
	for n, line := range i.Lines {
		at := [2]string{line.Provider, line.Model}
		if seen[at] {
			return apierr.Invalid(fmt.Sprintf("lines[%d]", n), fmt.Sprintf("provider %s and model %s appear twice; sum the amounts", screen.Quote(line.Provider), screen.Quote(line.Model)))
		}
		seen[at] = true
	}
	return nil
}

// Providers returns the providers that the invoice names, sorted, each once.
func (i *Invoice) Providers() []string {
	var all []string
	for _, line := range i.Lines {
		all = append(all, line.Provider)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Hash returns the same hash for the same invoice, independent of the order of its lines.
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

// Metered is the metered cost of a model in the period, paid for by the fleet's credentials. It contains the calls that
// began in the period, without cache hits: that is what an invoice contains.
type Metered struct {
	Provider, Model string
	Calls           int64
	Cost            amount.Amount
	// Estimated is the part of Cost whose tokens were not reported in full.
	Estimated amount.Amount
}

// Status is the status of a line or of an invoice; an invoice is Matched or Delta.
type Status string

// The statuses. An Unexplained line is billed but was not metered; an Unbilled one was metered but no line bills it.
const (
	Matched     Status = "matched"
	Delta       Status = "delta"
	Unexplained Status = "unexplained"
	Unbilled    Status = "unbilled"
)

// Compared is a line with the ledger's figures.
type Compared struct {
	Line
	Metered, Estimated amount.Amount
	Calls              int64
	Status             Status
}

// Delta returns the billed amount minus the metered one.
func (c Compared) Delta() amount.Amount { return c.Amount.Minus(c.Metered) }

// Result is an invoice compared with the ledger.
type Result struct {
	ID uuid.UUID
	// Sequence is the position in the order of results; it is set when the result is stored.
	Sequence int64
	Invoice
	Status Status
	// Compared is empty in a list.
	Compared []Compared
	// Billed and Metered are the sums of all lines.
	Billed, Metered amount.Amount
	CreatedAt       time.Time
	CreatedBy       string
}

// Compare compares an invoice with the metered costs of its providers. The lines keep their order; metered models
// without a line follow, by provider and model.
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

func (c Compared) judge(billed bool, tolerance amount.Amount) Status {
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

// Store sums the ledger and stores results.
type Store interface {
	// Metered returns the metered costs of providers in a period.
	Metered(ctx context.Context, start, end time.Time, providers []string) ([]Metered, error)
	// Keep stores a result under a key, with its audit entry. If the key is used already it returns the first result;
	// the error is an *apierr.Error if that result belongs to another invoice.
	Keep(ctx context.Context, key string, r Result) (kept Result, repeated bool, err error)
	// Find returns the result stored under a key, or false if there is none.
	Find(ctx context.Context, key string, hash []byte) (Result, bool, error)
	// Get returns one result, or an *apierr.Error if it does not exist.
	Get(ctx context.Context, id uuid.UUID) (Result, error)
	// List returns a page of results, newest first, without lines. before is the sequence of the last result of the
	// previous page, 0 for the first page.
	List(ctx context.Context, before int64, limit int) ([]Result, error)
	// Forget deletes at most limit results made before a moment, and returns how many it deleted.
	Forget(ctx context.Context, before time.Time, limit int) (int, error)
}

// Service reconciles invoices.
type Service struct{ Store }

// Reconcile compares an invoice with the ledger, once: the same key returns the first result again. An empty key stands
// for the invoice's own hash.
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
