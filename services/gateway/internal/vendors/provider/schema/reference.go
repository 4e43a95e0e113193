package schema

import "strings"

// references maps the name of a definition to the names of the definitions that it refers to.
type references map[string][]string

// isDefinitions reports whether a keyword at a schema's root holds definitions.
func isDefinitions(keyword string) bool { return keyword == "$defs" || keyword == "definitions" }

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// refer records a reference. It refuses targets other than a definition at the root of the schema.
func (c *converter) refer(target string) {
	if !c.rules.NoRecursion {
		return
	}
	if target == "#" {
		c.refuse("this provider has no recursive schemas")
		return
	}
	path, rooted := strings.CutPrefix(target, "#/")
	keyword, name, found := strings.Cut(path, "/")
	if !rooted || !found || !isDefinitions(keyword) || strings.Contains(name, "/") {
		c.refuse("this provider takes references to definitions of the schema only")
		return
	}
	if c.definition == "" {
		return // No reference can lead back here.
	}
	if c.references == nil {
		c.references = make(references)
	}
	c.references[c.definition] = append(c.references[c.definition], unescape.Replace(name))
}

// cyclic reports whether a definition refers to itself, directly or through others. It removes definitions that nothing
// refers to, until only cycles and what they refer to are left.
func (r references) cyclic() bool {
	waiting := make(map[string]int) // how many references to a definition are left
	for _, targets := range r {
		for _, target := range targets {
			waiting[target]++
		}
	}
	var free []string
	for name := range r {
		if waiting[name] == 0 {
			free = append(free, name)
		}
	}
	removed := 0
	for ; len(free) > 0; removed++ {
		name := free[len(free)-1]
		free = free[:len(free)-1]
		for _, target := range r[name] {
			if waiting[target]--; waiting[target] == 0 && r[target] != nil {
				free = append(free, target)
			}
		}
	}
	return removed < len(r)
}
