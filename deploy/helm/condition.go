package main

import (
	"fmt"
	"slices"
	"strings"
)

// A literal is a switch that is on, or off.
type literal struct {
	component int
	off       bool
}

func (l literal) holds(s switches) bool { return s.on(l.component) != l.off }

func (l literal) String() string {
	if l.off {
		return "(not " + components[l.component].test + ")"
	}
	return components[l.component].test
}

// A condition is a conjunction of literals, or with any their disjunction. An empty one always holds.
type condition struct {
	literals []literal
	any      bool
}

func (c condition) holds(s switches) bool {
	holds := func(l literal) bool { return l.holds(s) }
	if c.any {
		return slices.ContainsFunc(c.literals, holds)
	}
	return !slices.ContainsFunc(c.literals, func(l literal) bool { return !holds(l) })
}

// always reports whether the condition needs no test.
func (c condition) always() bool { return len(c.literals) == 0 }

// String returns the condition as the pipeline of an `if`.
func (c condition) String() string {
	if len(c.literals) == 1 {
		text := c.literals[0].String()
		if strings.HasPrefix(text, "(") {
			return text[1 : len(text)-1]
		}
		return text
	}
	words := []string{"and"}
	if c.any {
		words[0] = "or"
	}
	for _, l := range c.literals {
		words = append(words, l.String())
	}
	return strings.Join(words, " ")
}

// candidates are the conditions that are tried, the simplest first.
var candidates = conditions()

func conditions() []condition {
	var literals []literal
	for i := range components {
		literals = append(literals, literal{i, false}, literal{i, true})
	}
	all := []condition{{}}
	for _, l := range literals {
		all = append(all, condition{literals: []literal{l}})
	}
	for _, anyOf := range []bool{false, true} {
		for i, first := range literals {
			for _, second := range literals[:i] {
				if first.component != second.component {
					all = append(all, condition{[]literal{second, first}, anyOf})
				}
			}
		}
	}
	return all
}

// fit returns the simplest condition that holds where something is, and not where it isn't. Both are of the combinations
// in which what holds it is there.
func fit(in, within []switches) (condition, error) {
	for _, c := range candidates {
		if !slices.ContainsFunc(within, func(s switches) bool { return c.holds(s) != slices.Contains(in, s) }) {
			return c, nil
		}
	}
	return condition{}, fmt.Errorf("no condition of two switches fits %d of %d combinations", len(in), len(within))
}
