package policy

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// ReasonPolicyInvalid is the reason of a reload that changed nothing because the files are invalid.
const ReasonPolicyInvalid apierr.Reason = "policy_invalid"

// Version describes a policy that was put into force.
type Version struct {
	// Hash is the hash of the files that it was read from.
	Hash     string
	LoadedAt time.Time
	// Providers are the names of its providers, in order of preference; Models is the number of models that they list.
	Providers []string
	Models    int
}

// Reloaded is the result of a reload.
type Reloaded struct {
	Now, Before Version
	// Changed reports whether the files differ from the previous ones.
	Changed bool
	// Changes describes the differences for people; Warnings describes what is allowed but probably not intended.
	Changes, Warnings []string
}

// maxChanges is the largest number of changes in an answer.
const maxChanges = 100

// Changes returns descriptions of what differs between two policies, at most maxChanges and a line that counts the
// rest.
func Changes(before, now *Policy) []string {
	var all []string
	note := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for i := range before.Providers {
		if old := &before.Providers[i]; now.byName[old.Name] == nil {
			note("provider %s removed", old.Name)
		}
	}
	for i := range now.Providers {
		present := &now.Providers[i]
		if old := before.byName[present.Name]; old == nil {
			note("provider %s added", present.Name)
		} else {
			all = append(all, providerChanges(old.Provider, present)...)
		}
	}
	for _, name := range provider.Operations() {
		if old, o := target(before.defaults[name]), target(now.defaults[name]); old != o {
			note("default_model.%s: %s, was %s", name, o, old)
		}
		if !slices.Equal(targets(before.ladders[name]), targets(now.ladders[name])) {
			note("ladder.%s changed", name)
		}
	}
	for _, name := range goals {
		if !sameRanks(before.ranks[name], now.ranks[name], name) {
			note("goals.%s changed", name)
		}
	}
	if before.goal != now.goal {
		note("default_goal: %s, was %s", now.goal, before.goal)
	}
	if !slices.EqualFunc(before.tenants, now.tenants, func(a, b tenant) bool { return reflect.DeepEqual(a.Tenant, b.Tenant) }) {
		note("data_classification changed")
	}
	for _, name := range goals {
		if before.Hedge(name) != now.Hedge(name) {
			note("hedge.%s changed", name)
		}
	}
	if !reflect.DeepEqual(before.cache, now.cache) {
		note("cache changed")
	}
	if !reflect.DeepEqual(before.traces, now.traces) {
		note("traces changed")
	}
	if before.budget != now.budget {
		note("budget changed")
	}
	if !slices.Equal(before.approvalTools, now.approvalTools) {
		note("tools_needing_approval changed")
	}
	if !reflect.DeepEqual(before.tools, now.tools) {
		note("tools changed")
	}
	if before.resilience != now.resilience {
		note("resilience changed")
	}
	if len(all) > maxChanges {
		all = append(all[:maxChanges], fmt.Sprintf("and %d more", len(all)-maxChanges))
	}
	return all
}

func providerChanges(before, now *Provider) []string {
	var all []string
	index := func(p *Provider) map[string]Model {
		models := make(map[string]Model, len(p.Models))
		for _, model := range p.Models {
			models[model.Name] = model
		}
		return models
	}
	old, present := index(before), index(now)
	for _, model := range before.Models {
		if _, ok := present[model.Name]; !ok {
			all = append(all, fmt.Sprintf("model %s/%s removed", now.Name, model.Name))
		}
	}
	for _, model := range now.Models {
		if was, ok := old[model.Name]; !ok {
			all = append(all, fmt.Sprintf("model %s/%s added", now.Name, model.Name))
		} else if !reflect.DeepEqual(was, model) {
			all = append(all, fmt.Sprintf("model %s/%s changed", now.Name, model.Name))
		}
	}
	a, b := *before, *now
	a.Models, b.Models = nil, nil
	if !reflect.DeepEqual(a, b) {
		all = append(all, fmt.Sprintf("provider %s changed", now.Name))
	}
	return all
}

func target(o *Offer) string {
	if o == nil {
		return "none"
	}
	return o.String()
}

func targets(offers []*Offer) []string {
	all := make([]string, len(offers))
	for i, o := range offers {
		all[i] = target(o)
	}
	return all
}

func sameRanks(before, now []*Offer, goal Goal) bool {
	return slices.EqualFunc(before, now, func(a, b *Offer) bool {
		return a.Target == b.Target && a.ranks[goal.index()] == b.ranks[goal.index()]
	})
}
