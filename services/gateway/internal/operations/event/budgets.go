package event

import (
	"context"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/lifecycle"
)

const (
	// compareEvery is how far the comparison lags behind the ledger, compareRows the number of rows in one transaction,
	// compareTime its bound.
	compareEvery, compareRows, compareTime = time.Second, 2000, 10 * time.Second
)

// BudgetStore compares budgets.
type BudgetStore interface {
	// Compare reads the next rows of the ledger, and records an event for each budget that has reached a threshold with
	// them. It returns how many rows it read, and stops at the end of the transaction in which it reaches limit. It
	// returns 0 while another replica compares.
	Compare(ctx context.Context, limit int) (int, error)
}

// Budgets tells of budgets that reach a threshold. It follows the ledger, since no transaction of the ledger sees what
// others write at the same time, and all of them would have to wait for each other.
type Budgets struct {
	store BudgetStore
	log   *slog.Logger
}

// NewBudgets returns a Budgets that does nothing until Run.
func NewBudgets(store BudgetStore, log *slog.Logger) *Budgets { return &Budgets{store, log} }

// Run compares until ctx ends. It is a part of the service's lifecycle.
func (b *Budgets) Run(ctx context.Context) error {
	return lifecycle.Repeat{
		Every: compareEvery, Log: b.log, Name: "compare budgets",
		Do: func(ctx context.Context) error {
			return lifecycle.UntilDone(ctx, compareRows, compareTime, b.store.Compare)
		},
	}.Run(ctx)
}
