package alert

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// RuleStore keeps the rules of organizations, as JSON.
type RuleStore interface {
	// Get returns nil for an organization without rules.
	Get(ctx context.Context, organization string) ([]byte, error)
	// Put adds an audit entry with the names of the rules.
	Put(ctx context.Context, organization string, rules []byte, names []string, by Author) error
	// Delete adds an audit entry if there were rules.
	Delete(ctx context.Context, organization string, by Author) error
}

// Author is the author of a change, for the audit: the name of a service token or a key, the key and the user of a
// customer, which may be empty, the request, and the time.
type Author struct {
	Name, Key, User, Request string
	At                       time.Time
}

// Rules keeps the rules of organizations.
type Rules struct{ store RuleStore }

// NewRules returns the rules of a store.
func NewRules(store RuleStore) *Rules { return &Rules{store} }

// Get returns the rules of an organization; none is no error.
func (r *Rules) Get(ctx context.Context, organization string) ([]Rule, error) {
	text, err := r.store.Get(ctx, organization)
	if err != nil || text == nil {
		return []Rule{}, err
	}
	return Decode(text)
}

// Set replaces all rules of an organization, or none: the error is an *apierr.Error if one of them is refused.
func (r *Rules) Set(ctx context.Context, by Author, organization string, rules []Rule) error {
	if err := Check(rules); err != nil {
		return err
	}
	text, err := json.Marshal(rules)
	if err != nil {
		return fmt.Errorf("alert rules: %w", err)
	}
	names := make([]string, len(rules))
	for i := range rules {
		names[i] = rules[i].Name
	}
	return r.store.Put(ctx, organization, text, names, by)
}

// Remove removes all rules of an organization; without any it does nothing.
func (r *Rules) Remove(ctx context.Context, by Author, organization string) error {
	return r.store.Delete(ctx, organization, by)
}
