package trust

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Source reads the records whose levels are in force.
type Source interface {
	// Since returns the current records that changed after a version, and the version that the result includes.
	Since(ctx context.Context, since int64) (changed []Record, version int64, err error)
}

// ErrStale is the error of levels that may be out of date.
var ErrStale = errors.New("the levels of trust may be out of date")

// Levels holds the levels in force in memory, as package control loads them. Safe for concurrent use.
type Levels struct {
	source Source
	fresh  func(ctx context.Context) error

	mu     sync.RWMutex
	levels map[server]Level
}

// server is a server of an organization.
type server struct{ organization, id string }

// NewLevels returns Levels without any. fresh returns an error where what Load loaded may be out of date.
func NewLevels(source Source, fresh func(ctx context.Context) error) *Levels {
	return &Levels{source: source, fresh: fresh, levels: make(map[server]Level)}
}

// Load implements control.Load.
func (l *Levels) Load(ctx context.Context, since int64) (version int64, err error) {
	changed, version, err := l.source.Since(ctx, since)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range changed {
		l.levels[server{changed[i].Organization, changed[i].Server}] = changed[i].Effective
	}
	return version, nil
}

// Level returns the level of a server for an organization; Untrusted where none was assigned. The error is ErrStale.
func (l *Levels) Level(organization, id string) (Level, error) {
	if err := l.fresh(context.Background()); err != nil {
		return "", fmt.Errorf("%w: %w", ErrStale, err)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if level, known := l.levels[server{organization, id}]; known {
		return level, nil
	}
	return Untrusted, nil
}
