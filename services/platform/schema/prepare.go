package schema

import (
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// prepared is what a check needs of one subschema beside its compiled form.
type prepared struct {
	// types are the allowed types; nil for all. typeNames names them in a violation.
	types     []string
	typeNames string
	// enum and constant are the canonical texts of allowed values; nil for any.
	enum     map[string]bool
	constant *string
	// patterns are the expressions of patternProperties in the order of their texts.
	patterns []jsonschema.Regexp
	// dependentRequired and dependentSchemas are the names of these keywords, in order.
	dependentRequired, dependentSchemas []string
	state                               state
}

// state is that of the search for circles.
type state int

const (
	unseen state = iota
	open
	closed
)

// prepare visits all subschemas that a check can reach, and refuses one that applies itself to the same value without an
// end.
func (s *Schema) prepare() error {
	waiting := []*jsonschema.Schema{s.root}
	for len(waiting) > 0 {
		next := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		if s.prepared[next] != nil {
			continue
		}
		s.prepared[next] = preparedOf(next)
		waiting = append(append(waiting, inPlace(next)...), within(next)...)
	}
	for _, start := range slices.SortedFunc(maps.Keys(s.prepared), byLocation) {
		if err := s.circle(start); err != nil {
			return err
		}
	}
	return nil
}

func preparedOf(s *jsonschema.Schema) *prepared {
	p := &prepared{}
	if s.Types != nil {
		p.types = s.Types.ToStrings()
		p.typeNames = strings.Join(p.types, " or ")
	}
	free := evaluation{cost: math.MaxInt}
	if s.Enum != nil {
		p.enum = make(map[string]bool, len(s.Enum.Values))
		for _, value := range s.Enum.Values {
			p.enum[string(free.canonical(nil, value))] = true
		}
	}
	if s.Const != nil {
		text := string(free.canonical(nil, *s.Const))
		p.constant = &text
	}
	p.patterns = slices.SortedFunc(maps.Keys(s.PatternProperties), func(a, b jsonschema.Regexp) int {
		return strings.Compare(a.String(), b.String())
	})
	p.dependentRequired = slices.Sorted(maps.Keys(s.DependentRequired))
	p.dependentSchemas = slices.Sorted(maps.Keys(s.DependentSchemas))
	return p
}

// circle searches, depth first, for a schema that applies itself to the same value.
func (s *Schema) circle(at *jsonschema.Schema) error {
	p := s.prepared[at]
	switch p.state {
	case unseen:
	case open:
		return refuse(placeOf(at.Location), "must not apply itself to the same value")
	case closed:
		return nil
	}
	p.state = open
	for _, next := range inPlace(at) {
		if err := s.circle(next); err != nil {
			return err
		}
	}
	p.state = closed
	return nil
}

// inPlace returns the subschemas that apply to the same value.
func inPlace(s *jsonschema.Schema) (all []*jsonschema.Schema) {
	all = slices.Concat([]*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf)
	return some(append(all, slices.SortedFunc(maps.Values(s.DependentSchemas), byLocation)...))
}

// within returns the subschemas that apply to what is in the value.
func within(s *jsonschema.Schema) (all []*jsonschema.Schema) {
	all = slices.Concat([]*jsonschema.Schema{
		s.PropertyNames, s.UnevaluatedProperties, s.UnevaluatedItems, s.Contains, s.Items2020,
	}, s.PrefixItems, slices.Collect(maps.Values(s.Properties)), slices.Collect(maps.Values(s.PatternProperties)))
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	return some(append(all, additional))
}

// some returns the schemas that are not nil.
func some(all []*jsonschema.Schema) []*jsonschema.Schema {
	return slices.DeleteFunc(all, func(s *jsonschema.Schema) bool { return s == nil })
}

func byLocation(a, b *jsonschema.Schema) int { return strings.Compare(a.Location, b.Location) }

// placeOf returns the pointer in the document of a location.
func placeOf(location string) string {
	_, fragment, _ := strings.Cut(location, "#")
	pointer, _ := url.PathUnescape(fragment) // The library escaped it.
	return pointer
}
