package routing

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Feature is a set of things that a model may be able to do beside its operations.
type Feature uint8

// The features, by their names in the policy.
const (
	// FeatureTools is "tools", FeatureParallelTools "parallel_tools": several calls
	// in one turn.
	FeatureTools Feature = 1 << iota
	FeatureParallelTools
	// FeatureJSON is "json_object", FeatureJSONSchema "json_schema".
	FeatureJSON
	FeatureJSONSchema
	// FeatureImageURLs is "image_urls": the vendor fetches images itself.
	FeatureImageURLs
	// FeatureTokenInput is "token_input": texts to embed may come as tokens.
	FeatureTokenInput
)

var featureNames = []string{"tools", "parallel_tools", "json_object", "json_schema", "image_urls", "token_input"}

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

// Capabilities say what a model can do. What is left out is not known, and taken
// for given: its vendor refuses what it can't.
type Capabilities struct {
	// Operations that it does; absent: all that its dialect has.
	Operations []Operation `yaml:"operations"`
	// Features that it has; absent: all, an empty list: none.
	Features *Feature `yaml:"features"`
	Limits   Limits   `yaml:"limits"`
	// Dimensions of its vectors.
	Dimensions Dimensions `yaml:"dimensions"`
	// ImageSizes that it makes, as "1024x1024"; absent: any.
	ImageSizes []string `yaml:"image_sizes"`
	// ImageTokens is what one image usually costs in tokens of output, to compare prices.
	ImageTokens int `yaml:"image_tokens"`
}

// Limits are in tokens; 0 is unknown.
type Limits struct {
	// Context bounds input and output together, Input and Output each.
	Context int `yaml:"context"`
	Input   int `yaml:"input"`
	Output  int `yaml:"output"`
}

// Dimensions are lengths of vectors that may be asked for: those listed, or any
// from Min to Max; neither is any.
type Dimensions struct {
	AnyOf []int `yaml:"any_of"`
	Min   int   `yaml:"min"`
	Max   int   `yaml:"max"`
}

func (d Dimensions) allows(n int) bool {
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
		if operation.index() < 0 {
			return fmt.Errorf("operations: %q: want chat, embeddings, vision or images", operation)
		}
	}
	d := c.Dimensions
	switch {
	case min(c.Limits.Context, c.Limits.Input, c.Limits.Output, c.ImageTokens) < 0:
		return errors.New("limits, image_tokens: must not be negative")
	case len(d.AnyOf) > 0 && (d.Min != 0 || d.Max != 0), d.Min < 0, d.Max != 0 && d.Max < d.Min:
		return errors.New("dimensions: want any_of, or min and max")
	}
	return nil
}

// within fills in what a model leaves to its provider.
func (c Capabilities) within(provider Capabilities) Capabilities {
	if c.Operations == nil {
		c.Operations = provider.Operations
	}
	if c.Features == nil {
		c.Features = provider.Features
	}
	return c
}

// operations in the order of their index.
var operations = []Operation{OperationChat, OperationEmbeddings, OperationVision, OperationImages}

func (o Operation) index() int { return slices.Index(operations, o) }

// operationSet is a set of operations by their index.
type operationSet uint8

func setOf(list []Operation) operationSet {
	var set operationSet
	for _, operation := range list {
		set |= 1 << operation.index()
	}
	return set
}

func (s operationSet) has(index int) bool { return s&(1<<index) != 0 }

// dialects are the wire forms there are, and what each can carry.
var dialects = map[string]operationSet{
	"openai":    setOf(operations),
	"anthropic": setOf([]Operation{OperationChat, OperationVision}),
	"gemini":    setOf(operations),
	"cohere":    setOf([]Operation{OperationEmbeddings}),
	"sandbox":   setOf(operations),
}

// takesTokens are the dialects that can carry tokens to embed.
var takesTokens = []string{"openai", "sandbox"}

// Lack is why a candidate is left out of a plan.
type Lack string

// The lacks of a plan's exclusions.
const (
	LackOperation      Lack = "operation"
	LackClassification Lack = "data_classification"
	LackDialect        Lack = "dialect"
	LackTools          Lack = "tools"
	LackParallelTools  Lack = "parallel_tools"
	LackJSON           Lack = "json_object"
	LackJSONSchema     Lack = "json_schema"
	LackContext        Lack = "context"
	LackOutput         Lack = "max_tokens"
	LackDimensions     Lack = "dimensions"
	LackTokenInput     Lack = "token_input"
	// LackVocabulary is of a model that reads tokens as other text than the one that
	// they were made for.
	LackVocabulary Lack = "vocabulary"
	LackSize       Lack = "size"
)

// Exclusion is a candidate that was left out.
type Exclusion struct {
	Target
	Lack Lack
	// Limit of the model that the request is beyond; 0 where there is none.
	Limit int
}

// String says who was left out, and why.
func (e Exclusion) String() string {
	text := e.Target.String() + " (" + string(e.Lack)
	if e.Limit > 0 {
		text += ": at most " + strconv.Itoa(e.Limit)
	}
	return text + ")"
}

// lack tells what of the needs the model does not have; empty when it has all.
func (o *offer) lack(operation int, n *Needs) (lack Lack, limit int) {
	if !o.operations.has(operation) {
		return LackOperation, 0
	}
	if n.Dialect != "" && n.Dialect != o.provider.Dialect {
		return LackDialect, 0
	}
	if lack = o.featureLack(n); lack != "" {
		return lack, 0
	}
	return o.sizeLack(n)
}

func (o *offer) featureLack(n *Needs) Lack {
	lacks := o.candidate.Lacks
	switch {
	case lacks == 0:
		return ""
	case n.Tools && lacks&FeatureTools != 0:
		return LackTools
	case n.ParallelTools && lacks&FeatureParallelTools != 0:
		return LackParallelTools
	case n.JSON && lacks&FeatureJSON != 0:
		return LackJSON
	case n.JSONSchema && lacks&FeatureJSONSchema != 0:
		return LackJSONSchema
	case n.Tokens > 0 && lacks&FeatureTokenInput != 0:
		return LackTokenInput
	}
	return ""
}

// sure is a size that input estimated at n tokens surely has: an estimate is a
// token for four bytes, and hardly any text has tokens of more than six.
func sure(n int) int { return n / 3 * 2 }

func (o *offer) sizeLack(n *Needs) (lack Lack, limit int) {
	c := &o.capabilities
	input := sure(n.Context)
	if n.Tokens > 0 {
		input = n.Tokens
	}
	switch {
	case c.Limits.Input > 0 && input > c.Limits.Input:
		return LackContext, c.Limits.Input
	case c.Limits.Context > 0 && input > c.Limits.Context:
		return LackContext, c.Limits.Context
	case c.Limits.Output > 0 && n.Output > c.Limits.Output:
		return LackOutput, c.Limits.Output
	case c.Limits.Context > 0 && input+n.Output > c.Limits.Context:
		return LackContext, c.Limits.Context
	case !c.Dimensions.allows(n.Dimensions):
		return LackDimensions, c.Dimensions.Max
	case !sizeFits(c.ImageSizes, n.Size):
		return LackSize, 0
	}
	return "", 0
}

func sizeFits(sizes []string, size string) bool {
	return size == "" || size == "auto" || len(sizes) == 0 || slices.Contains(sizes, size)
}
