package spend

import (
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/tag"
)

// Dimension is a property of calls by which a report may group them: one of the constants, or TagPrefix and the name of
// a tag.
type Dimension string

// The dimensions.
const (
	DimensionModel    Dimension = "model"
	DimensionProvider Dimension = "provider"
	DimensionKey      Dimension = "key"
	DimensionUser     Dimension = "user"
	TagPrefix                   = "tag."
)

// MaxTags is how many tags a report may group by.
const MaxTags = 3

// TagName returns the name of the tag of a dimension; false for another dimension.
func (d Dimension) TagName() (string, bool) { return strings.CutPrefix(string(d), TagPrefix) }

// Grouping is the list of dimensions of a report, each of them once.
type Grouping []Dimension

// ParseGrouping returns the grouping of a list that is separated by commas; an empty text is no grouping. The error is
// an *apierr.Error that names the field group_by and repeats no value.
func ParseGrouping(text string) (Grouping, error) {
	if text == "" {
		return nil, nil
	}
	var g Grouping
	tags := 0
	for item := range strings.SplitSeq(text, ",") {
		d := Dimension(strings.TrimSpace(item))
		name, isTag := d.TagName()
		switch {
		case isTag && !tag.Name(name):
			return nil, invalid("tag.NAME: a name must have 1 to 64 of the characters a-z, 0-9, _, - and .")
		case !isTag && !slices.Contains([]Dimension{DimensionModel, DimensionProvider, DimensionKey, DimensionUser}, d):
			return nil, invalid("must be a list of model, provider, key, user and tag.NAME, separated by commas")
		case slices.Contains(g, d):
			return nil, invalid("names a dimension twice")
		}
		if isTag {
			if tags++; tags > MaxTags {
				return nil, invalid(fmt.Sprintf("must have at most %d tags", MaxTags))
			}
		}
		g = append(g, d)
	}
	return g, nil
}

func invalid(rule string) error { return apierr.Invalid("group_by", rule) }

// TagNames returns the names of the tags of the grouping, in its order.
func (g Grouping) TagNames() []string {
	var names []string
	for _, d := range g {
		if name, isTag := d.TagName(); isTag {
			names = append(names, name)
		}
	}
	return names
}
