package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// manyImports is the number of imports from which on a map gives their count instead of their names.
const manyImports = 8

// width is the length of a line in the documents.
const width = 120

// A section is a part of the map: a district, or packages of no district that follow one another.
type section struct {
	title    string // empty in a map without districts
	synopsis string
	packages []*node
}

// packageMap returns the map of a service's packages, the lowest first. Its root is internal, or the module itself where
// there is no such folder.
func packageMap(dir string) (string, error) {
	module, err := modulePath(dir)
	if err != nil {
		return "", err
	}
	root, prefix, link := filepath.Join(dir, "internal"), module+"/internal", "../internal"
	if _, err := os.Stat(root); err != nil {
		root, prefix, link = dir, module, ".."
	}
	nodes, err := packages(root, prefix)
	if err != nil {
		return "", err
	}
	var page strings.Builder
	fmt.Fprintf(&page, "# Packages of %s\n\n", filepath.Base(dir))
	page.WriteString("Generated from the package comments by `make gen`; do not edit. Read it from the top: a package imports only\n" +
		"packages above it.\n")
	all := sections(nodes)
	if err := checkOrder(all); err != nil {
		return "", fmt.Errorf("%s: %w", root, err)
	}
	for _, s := range all {
		s.write(&page, link)
	}
	return page.String(), nil
}

// checkOrder reports an import that the map would show the wrong way round: two folders import each other's packages.
func checkOrder(all []section) error {
	seen := make(map[string]bool)
	for _, s := range all {
		for _, n := range s.packages {
			for _, imported := range n.imports {
				if !seen[imported] {
					return fmt.Errorf("%s imports %s, whose folder imports from the folder of %s", n.path, imported, n.path)
				}
			}
			seen[n.path] = true
		}
	}
	return nil
}

// write writes the section. link leads from the map to the root of the packages.
func (s section) write(page *strings.Builder, link string) {
	page.WriteString("\n")
	if s.title != "" {
		fmt.Fprintf(page, "## %s\n\n", s.title)
	}
	if text := strings.TrimPrefix(s.synopsis, "is "); text != "" {
		wrap(page, strings.ToUpper(text[:1])+text[1:], "")
		page.WriteString("\n")
	}
	for _, n := range s.packages {
		name := strings.TrimPrefix(n.path, s.title+"/")
		wrap(page, fmt.Sprintf("- [%s](%s) %s%s", name, path.Join(link, n.path), n.synopsis, builds(n)), "  ")
	}
}

// wrap writes text in lines of at most width bytes where its words allow it. All lines but the first are indented.
func wrap(page *strings.Builder, text, indent string) {
	length := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case length+1+len(word) > width:
			page.WriteString("\n" + indent)
			length = len(indent)
		default:
			page.WriteString(" ")
			length++
		}
		page.WriteString(word)
		length += len(word)
	}
	page.WriteString("\n")
}

// builds returns the sentence that names what a package imports.
func builds(n *node) string {
	switch count := len(n.imports); {
	case count == 0:
		return ""
	case count > manyImports:
		return fmt.Sprintf(" Builds on %d packages.", count)
	default:
		names := make([]string, count)
		for i, imported := range n.imports {
			names[i] = "`" + imported + "`"
		}
		return " Builds on " + strings.Join(names, ", ") + "."
	}
}

// sections returns the packages in the order of the map. Those that only tests import come last.
func sections(nodes map[string]*node) []section {
	groups, tests := group(nodes)
	keys := slices.Collect(maps.Keys(groups))
	depths := groupDepths(nodes, groups)
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(depths[b], depths[a]), first(isDistrict(nodes, a), isDistrict(nodes, b)), cmp.Compare(a, b))
	})

	var all []section
	alone := false // the last section holds packages of no district
	for _, key := range keys {
		members := groups[key]
		slices.SortFunc(members, func(a, b *node) int {
			return cmp.Or(cmp.Compare(b.depth, a.depth), cmp.Compare(a.path, b.path))
		})
		district := isDistrict(nodes, key)
		if !district && alone {
			last := &all[len(all)-1]
			last.title += ", " + key
			last.packages = append(last.packages, members...)
			continue
		}
		s := section{title: key, packages: members}
		if district {
			s.synopsis = nodes[key].synopsis
		}
		all, alone = append(all, s), !district
	}
	if len(all) == 1 {
		all[0].title = ""
	}
	if len(tests) > 0 {
		all = append(all, section{title: "For tests", packages: tests})
	}
	return all
}

// first orders what holds before what doesn't.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// isDistrict reports whether a folder directly below the root is a district.
func isDistrict(nodes map[string]*node, folder string) bool {
	return nodes[folder] != nil && nodes[folder].district
}

// group returns the packages by their folder directly below the root, and apart from them those that only tests import.
func group(nodes map[string]*node) (groups map[string][]*node, tests []*node) {
	groups = make(map[string][]*node)
	for _, key := range slices.Sorted(maps.Keys(nodes)) {
		n := nodes[key]
		switch {
		case n.district:
		case n.forTests():
			tests = append(tests, n)
		default:
			groups[n.folder()] = append(groups[n.folder()], n)
		}
	}
	return groups, tests
}

// groupDepths returns for each group the longest chain of imports between groups that leads to it. An import that
// would close a cycle doesn't count; checkOrder reports it.
func groupDepths(nodes map[string]*node, groups map[string][]*node) map[string]int {
	depths := make(map[string]int)
	onPath := make(map[string]bool)
	var sink func(key string, depth int)
	sink = func(key string, depth int) {
		onPath[key] = true
		depths[key] = max(depths[key], depth)
		for _, n := range groups[key] {
			for _, imported := range n.imports {
				below := nodes[imported].folder()
				if !onPath[below] && depths[below] <= depths[key] {
					sink(below, depths[key]+1)
				}
			}
		}
		onPath[key] = false
	}
	for key := range groups {
		sink(key, depths[key])
	}
	return depths
}
