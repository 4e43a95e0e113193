package routing

import (
	"strconv"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

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
	LackReasoning      Lack = "reasoning"
	LackContext        Lack = "context"
	LackOutput         Lack = "max_tokens"
	LackDimensions     Lack = "dimensions"
	LackTokenInput     Lack = "token_input"
	// LackVocabulary excludes a model that would read token input as other text than the model that the tokens were made
	// for. Token numbers are other words to another model, so no other model serves them, not even by pin or canary.
	LackVocabulary Lack = "vocabulary"
	LackSize       Lack = "size"
)

// Exclusion is a candidate that was left out.
type Exclusion struct {
	provider.Target
	Lack Lack
	// Limit is the model's limit that the request exceeds; 0 where there is none.
	Limit int
}

// String returns the candidate and why it was left out.
func (e Exclusion) String() string {
	text := e.Target.String() + " (" + string(e.Lack)
	if e.Limit > 0 {
		text += ": at most " + strconv.Itoa(e.Limit)
	}
	return text + ")"
}

// lackOf returns the first need that the model does not meet; empty if it meets all.
func lackOf(o *policy.Offer, operation provider.Operation, n *Needs) (lack Lack, limit int) {
	if !o.Operations.Has(operation) {
		return LackOperation, 0
	}
	if n.Dialect != "" && !o.Takes(n.Dialect) || n.Relay != "" && !o.Relays(n.Relay) {
		return LackDialect, 0
	}
	if lack = featureLack(o, n); lack != "" {
		return lack, 0
	}
	return sizeLack(o, n)
}

func featureLack(o *policy.Offer, n *Needs) Lack {
	lacks := o.Lacks
	switch {
	case lacks == 0:
		return ""
	case n.Tools && lacks&policy.FeatureTools != 0:
		return LackTools
	case n.ParallelTools && lacks&policy.FeatureParallelTools != 0:
		return LackParallelTools
	case n.JSON && lacks&policy.FeatureJSON != 0:
		return LackJSON
	case n.JSONSchema && lacks&policy.FeatureJSONSchema != 0:
		return LackJSONSchema
	case n.Reasoning && lacks&policy.FeatureReasoning != 0:
		return LackReasoning
	case n.Tokens > 0 && lacks&policy.FeatureTokenInput != 0:
		return LackTokenInput
	}
	return ""
}

// sure returns a number of tokens that input estimated at n tokens certainly has: an estimate counts a token for four
// bytes, and hardly any text has tokens of more than six.
func sure(n int) int { return n / 3 * 2 }

func sizeLack(o *policy.Offer, n *Needs) (lack Lack, limit int) {
	c := &o.Capabilities
	input := sure(n.Context)
	switch {
	case n.Tokens > 0:
		input = n.Tokens
	case n.Compacted.Provider == o.Provider && o.Takes(n.Form):
		input = sure(max(n.Context-n.Compacted.Tokens, 0))
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
	case !c.Dimensions.Allows(n.Dimensions):
		return LackDimensions, c.Dimensions.Max
	case !c.MakesSize(n.Size):
		return LackSize, 0
	}
	return "", 0
}
