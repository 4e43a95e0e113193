package policy

import (
	"errors"
	"fmt"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// addDefaults sets the provider's models for requests that name only the provider.
func (p *Policy) addDefaults(e *entry) error {
	var err error
	e.defaults, err = pickEach("default_model", e.DefaultModel, func(name string) (*Offer, error) {
		o := e.find(name)
		if o == nil {
			return nil, fmt.Errorf("%q: the provider has no such model", name)
		}
		o.Unlisted = false
		e.offers[name] = o
		return o, nil
	})
	if err != nil {
		return err
	}
	for _, operation := range provider.Operations() {
		for i := 0; e.defaults[operation] == nil && i < len(e.Models); i++ {
			if o := e.offers[e.Models[i].Name]; o.Operations.Has(operation) {
				e.defaults[operation] = o
			}
		}
	}
	return nil
}

// pick returns the offer that a setting names for each operation.
func (p *Policy) pick(field string, setting perOperation[string]) (map[provider.Operation]*Offer, error) {
	return pickEach(field, setting, p.target)
}

func pickEach(field string, setting perOperation[string], find func(name string) (*Offer, error)) (map[provider.Operation]*Offer, error) {
	picked := make(map[provider.Operation]*Offer)
	for operation, name := range setting.of {
		path := field + "." + string(operation)
		if setting.all {
			path = field
		}
		if operation.Set() == 0 {
			return nil, fmt.Errorf("%s: want one of %v", path, provider.Operations())
		}
		o, err := find(name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		case o.Operations.Has(operation):
			picked[operation] = o
		case !setting.all:
			return nil, fmt.Errorf("%s: %q does not support %s", path, name, operation)
		}
	}
	return picked, nil
}

// target returns the offer named "provider/model", or an error if it does not exist.
func (p *Policy) target(name string) (*Offer, error) {
	of, model, _ := strings.Cut(name, "/")
	e := p.byName[of]
	if e == nil {
		return nil, fmt.Errorf("%q: want provider/model of a configured provider", name)
	}
	o := e.find(model)
	if o == nil {
		return nil, fmt.Errorf("%q: the provider has no such model", name)
	}
	o.Unlisted = false
	e.offers[model] = o // For a provider without a list: keep the offer that ranks refer to.
	return o, nil
}

// removed reports whether a target's provider was replaced by one with other models.
func (p *Policy) removed(name string) bool {
	of, _, _ := strings.Cut(name, "/")
	return p.replaced[of]
}

func (p *Policy) addRanks(goal Goal, tiers []tier) error {
	if !goal.IsKnown() {
		return errors.New("want cost, latency or quality")
	}
	at := goal.index()
	for rank, names := range tiers {
		for _, name := range names {
			o, err := p.target(name)
			if err != nil && p.removed(name) {
				continue
			}
			if err != nil {
				return err
			}
			if o.ranks[at] != Unranked {
				return fmt.Errorf("%q: appears twice", name)
			}
			o.ranks[at], o.tied[at] = int32(rank), len(names) > 1
			p.ranks[goal] = append(p.ranks[goal], o)
		}
	}
	return nil
}

func (p *Policy) addLadders(setting perOperation[[]string]) error {
	p.ladders = make(map[provider.Operation][]*Offer)
	for operation, names := range setting.of {
		path := "ladder"
		if !setting.all {
			path += "." + string(operation)
		}
		if operation.Set() == 0 {
			return fmt.Errorf("%s: want chat, embeddings, vision or images", path)
		}
		for _, name := range names {
			o, err := p.target(name)
			switch {
			case err != nil && p.removed(name):
			case err != nil:
				return fmt.Errorf("%s: %w", path, err)
			case o.Operations.Has(operation):
				p.ladders[operation] = append(p.ladders[operation], o)
			case !setting.all:
				return fmt.Errorf("%s: %q does not support %s", path, name, operation)
			}
		}
	}
	return nil
}
