package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A node is what the builds have in common at one place, and where they differ by which switch. One of the fields says
// what it is: a scalar, the fields of a mapping, the items of a sequence, or text of a template.
type node struct {
	scalar *yaml.Node
	fields []part
	items  []part
	inline string   // follows the key; %d is where its own lines are indented to
	extra  []string // lines behind the fields or items
}

// child returns a field of a mapping, or of the first item of a sequence, or nil.
func (n *node) child(key string) *node {
	if n == nil {
		return nil
	}
	if len(n.items) > 0 {
		return n.items[0].node.child(key)
	}
	if i := slices.IndexFunc(n.fields, func(p part) bool { return p.key == key }); i >= 0 {
		return n.fields[i].node
	}
	return nil
}

// A part is a field or an item, and when it is there. Fields of one key exclude each other.
type part struct {
	key  string
	when condition
	node *node
}

// An object is one of Kubernetes', with its name and when it is there. The kind of a workload is left to its fields,
// because a component may change it.
type object struct {
	kind, name string
	part
	extra []string // further tests
}

// variants are the forms of one thing, by the combination that has it.
type variants map[switches]*yaml.Node

// sorted returns the combinations in an order that doesn't change between runs.
func (v variants) sorted() []switches { return slices.Sorted(maps.Keys(v)) }

// mergeObjects returns all objects of the builds, each once. Namespaces are left to Helm.
func mergeObjects(builds [][]*yaml.Node, samples []switches) (all []*object, err error) {
	at := make(map[[2]string]variants)
	var order [][2]string
	for i, objects := range builds {
		for _, o := range objects {
			kind, name := text(o, "kind"), text(o, "metadata", "name")
			if kind == "Namespace" {
				continue
			}
			if kind == "Deployment" || kind == "StatefulSet" {
				kind = workload
			}
			id := [2]string{kind, name}
			if at[id] == nil {
				at[id] = make(variants)
				order = append(order, id)
			}
			at[id][samples[i]] = o
		}
	}
	for _, id := range order {
		parts, err := merge(at[id], samples)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", id[0], id[1], err)
		}
		all = append(all, &object{kind: id[0], name: id[1], part: parts[0]})
	}
	return all, nil
}

// workload is the kind of what runs a service's pods.
const workload = "Workload"

// text returns the scalar at a path of keys, or "".
func text(n *yaml.Node, path ...string) string {
	for _, key := range path {
		n = field(n, key)
	}
	if n == nil {
		return ""
	}
	return n.Value
}

func field(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// merge returns the forms of one thing with the conditions under which each is there: one form for mappings and for
// sequences, which differ inside, and one for each value otherwise.
func merge(in variants, within []switches) ([]part, error) {
	groups := make(map[string]variants)
	var order []string
	for _, s := range in.sorted() {
		form := canonical(in[s])
		switch {
		case in[s].Kind == yaml.MappingNode && len(in[s].Content) > 0:
			form = "{"
		case in[s].Kind == yaml.SequenceNode && len(in[s].Content) > 0:
			form = "["
		}
		if groups[form] == nil {
			groups[form] = make(variants)
			order = append(order, form)
		}
		groups[form][s] = in[s]
	}
	var all []part
	for _, form := range order {
		group := groups[form]
		here := group.sorted()
		when, err := fit(here, within)
		if err != nil {
			return nil, err
		}
		n := &node{scalar: group[here[0]]}
		switch form {
		case "{":
			n = &node{}
			n.fields, err = mergeFields(group)
		case "[":
			n = &node{}
			n.items, err = mergeItems(group)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, part{when: when, node: n})
	}
	return all, nil
}

func mergeFields(in variants) (all []part, err error) {
	at := make(map[string]variants)
	for s, n := range in {
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i].Value
			if at[key] == nil {
				at[key] = make(variants)
			}
			at[key][s] = n.Content[i+1]
		}
	}
	for _, key := range slices.Sorted(maps.Keys(at)) {
		parts, err := merge(at[key], in.sorted())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		for _, p := range parts {
			p.key = key
			all = append(all, p)
		}
	}
	return all, checkFilled(all, in.sorted())
}

// checkFilled refuses a mapping or sequence of which a combination has no part, since a template would leave its key with
// nothing behind it.
func checkFilled(parts []part, within []switches) error {
	for _, s := range within {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.when.holds(s) }) {
			return fmt.Errorf("nothing is left of it in the combination %b", s)
		}
	}
	return nil
}

// mergeItems merges sequences: those of one item inside it, others by whole items, in an order that each build keeps.
func mergeItems(in variants) ([]part, error) {
	single := true
	for _, n := range in {
		single = single && len(n.Content) == 1
	}
	if single {
		items := make(variants)
		for s, n := range in {
			items[s] = n.Content[0]
		}
		return merge(items, in.sorted())
	}
	at := make(map[string]variants)
	follows := make(map[string]map[string]bool)
	var order []string
	for _, s := range in.sorted() {
		before := ""
		for _, item := range in[s].Content {
			form := canonical(item)
			switch {
			case at[form] == nil:
				at[form] = make(variants)
				follows[form] = make(map[string]bool)
				order = append(order, form)
			case at[form][s] != nil:
				return nil, fmt.Errorf("an item is there twice: %s", form)
			}
			at[form][s] = item
			if before != "" {
				follows[form][before] = true
			}
			before = form
		}
	}
	var all []part
	for len(order) > 0 {
		next := slices.IndexFunc(order, func(form string) bool {
			return !slices.ContainsFunc(order, func(other string) bool { return follows[form][other] })
		})
		if next < 0 {
			return nil, fmt.Errorf("items have no order that all builds keep: %s", strings.Join(order, " "))
		}
		parts, err := merge(at[order[next]], in.sorted())
		if err != nil {
			return nil, err
		}
		all = append(all, parts...)
		order = slices.Delete(order, next, next+1)
	}
	return all, checkFilled(all, in.sorted())
}

// canonical returns a text that is the same for equal values, and for no others.
func canonical(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		var all strings.Builder
		for _, child := range n.Content {
			all.WriteString(canonical(child) + ",")
		}
		return n.Tag + "(" + all.String() + ")"
	default:
		return fmt.Sprintf("%s %q", n.Tag, n.Value)
	}
}
