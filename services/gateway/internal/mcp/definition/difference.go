package definition

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/services/gateway/internal/governance/principal"
)

// Bounds of what is shown of a difference.
const (
	// MaxDifferences is how many places Differences returns at most, maxValue the length of a value there, and maxPath that
	// of a place, in characters.
	MaxDifferences, maxValue, maxPath = 100, 2000, 500
	// MaxInvisible is how many places Invisible returns at most.
	MaxInvisible = 20
)

// Difference is a value that two definitions have differently. The values are JSON in one line, in which invisible
// characters are written as \u{…}; one that a definition doesn't have is empty.
type Difference struct {
	// Path is a JSON Pointer (RFC 6901), in which invisible characters are written as \u{…}.
	Path          string
	Before, After string
}

// Differences returns where two definitions differ, in the order of the members' names. Elements of arrays are compared
// by their index.
func Differences(before, after json.RawMessage) []Difference {
	a, okBefore := decode(before)
	b, okAfter := decode(after)
	if !okBefore || !okAfter {
		return nil // Neither was stored without a canonical form.
	}
	var c comparison
	c.compare(a, b, true, true)
	return c.found
}

func decode(text json.RawMessage) (v any, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err := decoder.Decode(&v)
	return v, err == nil
}

type comparison struct {
	path  []string
	found []Difference
}

// compare notes where two values differ; inA and inB report whether there are such values.
func (c *comparison) compare(a, b any, inA, inB bool) {
	if len(c.found) == MaxDifferences {
		return
	}
	if !inA || !inB {
		c.note(a, b, inA, inB)
		return
	}
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			c.objects(a, b)
			return
		}
	case []any:
		if b, ok := b.([]any); ok {
			for i := range max(len(a), len(b)) {
				c.within(strconv.Itoa(i), at(a, i), at(b, i), i < len(a), i < len(b))
			}
			return
		}
	default:
		if a == b {
			return
		}
	}
	c.note(a, b, true, true)
}

func (c *comparison) objects(a, b map[string]any) {
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		inA, inB := a[name], b[name]
		_, okA := a[name]
		_, okB := b[name]
		c.within(name, inA, inB, okA, okB)
	}
}

func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

func (c *comparison) within(token string, a, b any, inA, inB bool) {
	c.path = append(c.path, token)
	c.compare(a, b, inA, inB)
	c.path = c.path[:len(c.path)-1]
}

func (c *comparison) note(a, b any, inA, inB bool) {
	d := Difference{Path: pointer(c.path)}
	if inA {
		d.Before = Visible(compact(a), maxValue)
	}
	if inB {
		d.After = Visible(compact(b), maxValue)
	}
	c.found = append(c.found, d)
}

var escapes = strings.NewReplacer("~", "~0", "/", "~1")

func pointer(path []string) string {
	var out strings.Builder
	for _, token := range path {
		out.WriteString("/" + escapes.Replace(token))
		if out.Len() > 4*maxPath {
			break
		}
	}
	return Visible(out.String(), maxPath)
}

// Invisible returns where the texts and names of a definition hold characters that people don't see as themselves, other
// than line breaks and tabs.
func Invisible(text json.RawMessage) []string {
	v, ok := decode(text)
	if !ok {
		return nil
	}
	var s search
	s.visit(v)
	return s.found
}

type search struct{ path, found []string }

func (s *search) visit(v any) {
	if len(s.found) == MaxInvisible {
		return
	}
	switch v := v.(type) {
	case string:
		s.check(v)
	case []any:
		for i, element := range v {
			s.within(strconv.Itoa(i), element)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			s.path = append(s.path, name)
			s.check(name)
			s.path = s.path[:len(s.path)-1]
			s.within(name, v[name])
		}
	}
}

func (s *search) within(token string, v any) {
	s.path = append(s.path, token)
	s.visit(v)
	s.path = s.path[:len(s.path)-1]
}

func (s *search) check(text string) {
	hidden := func(r rune) bool { return principal.Invisible(r) && r != '\n' && r != '\r' && r != '\t' }
	if len(s.found) == MaxInvisible || !strings.ContainsFunc(text, hidden) {
		return
	}
	if place := pointer(s.path); !slices.Contains(s.found, place) {
		s.found = append(s.found, place)
	}
}
