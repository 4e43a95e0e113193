package approver

import (
	"context"
	"encoding/json"
	"fmt"

	"switchyard.dev/services/edge/internal/alert"
)

// GroupStore keeps the groups of organizations, as JSON.
type GroupStore interface {
	// Get returns nil for an organization without groups.
	Get(ctx context.Context, organization string) ([]byte, error)
	// Put adds an audit entry with the names of the groups.
	Put(ctx context.Context, organization string, groups []byte, names []string, by alert.Author) error
}

// Groups keeps the groups of organizations.
type Groups struct{ store GroupStore }

// NewGroups returns the groups of a store.
func NewGroups(store GroupStore) *Groups { return &Groups{store} }

// Get returns the groups of an organization; none is no error.
func (g *Groups) Get(ctx context.Context, organization string) ([]Group, error) {
	text, err := g.store.Get(ctx, organization)
	if err != nil || text == nil {
		return []Group{}, err
	}
	return Decode(text)
}

// Set replaces all groups of an organization, or none: the error is an *apierr.Error if one of them is refused.
func (g *Groups) Set(ctx context.Context, by alert.Author, organization string, groups []Group) error {
	if err := Check(groups); err != nil {
		return err
	}
	text, err := json.Marshal(groups)
	if err != nil {
		return fmt.Errorf("approver groups: %w", err)
	}
	names := make([]string, len(groups))
	for i := range groups {
		names[i] = groups[i].Name
	}
	return g.store.Put(ctx, organization, text, names, by)
}
