package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Feature is a set of abilities that a model may have in addition to its operations.
type Feature uint8

// The features, with their names in the policy.
const (
	// FeatureTools is "tools"; FeatureParallelTools is "parallel_tools": several calls in one turn.
	FeatureTools Feature = 1 << iota
	FeatureParallelTools
	// FeatureJSON is "json_object"; FeatureJSONSchema is "json_schema".
	FeatureJSON
	FeatureJSONSchema
	// FeatureImageURLs is "image_urls": the vendor fetches images itself.
	FeatureImageURLs
	// FeatureTokenInput is "token_input": texts to embed may be given as token numbers.
	FeatureTokenInput
	// FeatureReasoning is "reasoning": the model thinks before it answers, as much as the request says. Where no features
	// are listed, it follows from the model's name.
	FeatureReasoning
)

var featureNames = []string{"tools", "parallel_tools", "json_object", "json_schema", "image_urls", "token_input", "reasoning"}

// UnmarshalYAML reads a list of features into the set.
func (f *Feature) UnmarshalYAML(node *yaml.Node) error {
	var names []string
	if err := node.Decode(&names); err != nil {
		return errors.New("features: want a list")
	}
	*f = 0
	for _, name := range names {
		bit := slices.Index(featureNames, name)
		if bit < 0 {
			return fmt.Errorf("features: %q: want one of %v", name, featureNames)
		}
		*f |= 1 << bit
	}
	return nil
}

// Capabilities are what a model can do. What is left out is unknown, and assumed to be supported: the vendor refuses
// what it doesn't support.
type Capabilities struct {
	// Operations are the model's operations; absent: all of the contract's that its dialect has.
	Operations []provider.Operation `yaml:"operations"`
	// Features are the model's features; absent: all, an empty list: none.
	Features *Feature `yaml:"features"`
	// Sampling says which sampling settings the model accepts; absent: the model's name decides.
	Sampling SamplingSettings `yaml:"sampling"`
	Limits   Limits           `yaml:"limits"`
	// Dimensions are the possible lengths of its vectors.
	Dimensions Dimensions `yaml:"dimensions"`
	// ImageSizes are the sizes of images that it generates, such as "1024x1024"; absent: any.
	ImageSizes []string `yaml:"image_sizes"`
	// ImageTokens is the usual number of output tokens of one image, for comparing prices and for estimates.
	ImageTokens int `yaml:"image_tokens"`
}

// SamplingSettings names which sampling settings a model accepts: any, one or default; empty if the policy says
// nothing.
type SamplingSettings string

// samplings maps each name of SamplingSettings to its meaning.
var samplings = map[SamplingSettings]provider.Sampling{
	"any": provider.SamplingAny, "one": provider.SamplingOne, "default": provider.SamplingDefault,
}

// override returns terms with the policy's sampling settings; terms stay unchanged if the policy says nothing.
func (s SamplingSettings) override(terms provider.Terms) *provider.Terms {
	if takes, known := samplings[s]; known {
		terms.Sampling, terms.SamplesWithoutReasoning = takes, false
	}
	return &terms
}

// Limits are maximum numbers of tokens; 0 is unknown.
type Limits struct {
	// Context bounds input and output together; Input and Output bound each.
	Context int `yaml:"context"`
	Input   int `yaml:"input"`
	Output  int `yaml:"output"`
}

// Dimensions are the vector lengths that may be requested: those listed, or any from Min to Max. If neither is set, any
// length may be requested.
type Dimensions struct {
	AnyOf []int `yaml:"any_of"`
	Min   int   `yaml:"min"`
	Max   int   `yaml:"max"`
}

// Allows reports whether vectors of length n may be requested; 0 leaves the length to the model.
func (d Dimensions) Allows(n int) bool {
	switch {
	case n == 0:
		return true
	case len(d.AnyOf) > 0:
		return slices.Contains(d.AnyOf, n)
	}
	return n >= d.Min && (d.Max == 0 || n <= d.Max)
}

func (c Capabilities) check() error {
	for _, operation := range c.Operations {
		if operation.Set() == 0 {
			return fmt.Errorf("operations: %q: want some of %v", operation, provider.Operations())
		}
	}
	d := c.Dimensions
	_, known := samplings[c.Sampling]
	switch {
	case c.Sampling != "" && !known:
		return fmt.Errorf("sampling: %q: want any, one or default", c.Sampling)
	case min(c.Limits.Context, c.Limits.Input, c.Limits.Output, c.ImageTokens) < 0:
		return errors.New("limits, image_tokens: must not be negative")
	case len(d.AnyOf) > 0 && (d.Min != 0 || d.Max != 0), d.Min < 0, d.Max != 0 && d.Max < d.Min:
		return errors.New("dimensions: want any_of, or min and max")
	}
	return nil
}

// withDefaults returns the capabilities completed with those of the provider.
func (c Capabilities) withDefaults(provider Capabilities) Capabilities {
	if c.Operations == nil {
		c.Operations = provider.Operations
	}
	if c.Features == nil {
		c.Features = provider.Features
	}
	c.Sampling = cmp.Or(c.Sampling, provider.Sampling)
	return c
}

// MakesSize reports whether the model generates images of a size; "" and "auto" leave the size to the model.
func (c *Capabilities) MakesSize(size string) bool {
	return size == "" || size == "auto" || len(c.ImageSizes) == 0 || slices.Contains(c.ImageSizes, size)
}
