package exposure

import (
	"context"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/lifecycle"
)

const (
	// foldEvery is how far the sums are behind the ledger; readers add the rest up.
	foldEvery = time.Second
	// foldRows are folded in one transaction, foldTime bounds it.
	foldRows = 5000
	foldTime = 30 * time.Second
)

// Folder brings the sums forward, one replica at a time.
type Folder struct {
	store Store
	log   *slog.Logger
}

// NewFolder returns a folder that does nothing until Run.
func NewFolder(store Store, log *slog.Logger) *Folder { return &Folder{store, log} }

// Run folds until ctx ends. It is a part of the service's lifecycle.
func (f *Folder) Run(ctx context.Context) error {
	return lifecycle.Repeat{
		Every: foldEvery, Do: f.catchUp, Log: f.log,
		Name: "add up the use of credentials",
	}.Run(ctx)
}

// catchUp folds until nothing is left.
func (f *Folder) catchUp(ctx context.Context) error {
	for {
		n, err := f.fold(ctx)
		if err != nil || n < foldRows {
			return err
		}
	}
}

func (f *Folder) fold(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, foldTime)
	defer cancel()
	return f.store.Fold(ctx, foldRows)
}
