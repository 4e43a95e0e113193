package toolserver

import (
	"slices"

	"switchyard.dev/services/platform/apierr"
)

// Feature is a part of the protocol that a registration offers to callers.
type Feature string

// The features.
const (
	FeatureTools       Feature = "tools"
	FeatureResources   Feature = "resources"
	FeaturePrompts     Feature = "prompts"
	FeatureCompletions Feature = "completions"
	// FeatureTasks lets tools answer with tasks, whose results come later.
	FeatureTasks Feature = "tasks"
)

// features are all features, in the order in which a server has them.
var features = []Feature{FeatureTools, FeatureResources, FeaturePrompts, FeatureCompletions, FeatureTasks}

// Features returns all features.
func Features() []Feature { return slices.Clone(features) }

// Offers reports whether a server's registration offers a feature. One without Features offers tools alone.
func (s *Server) Offers(f Feature) bool {
	if len(s.Features) == 0 {
		return f == FeatureTools
	}
	return slices.Contains(s.Features, f)
}

// readFeatures returns features in their order, each once; tools alone for none.
func readFeatures(named []Feature) ([]Feature, error) {
	if len(named) == 0 {
		return []Feature{FeatureTools}, nil
	}
	for _, f := range named {
		if !slices.Contains(features, f) {
			return nil, apierr.Invalid("features", "must hold only tools, resources, prompts, completions and tasks")
		}
	}
	if slices.Contains(named, FeatureTasks) && !slices.Contains(named, FeatureTools) {
		return nil, apierr.Invalid("features", "must include tools when they include tasks")
	}
	return slices.DeleteFunc(slices.Clone(features), func(f Feature) bool { return !slices.Contains(named, f) }), nil
}

// FeaturesOf returns the features of names, as they are stored and sent.
func FeaturesOf(names []string) []Feature {
	of := make([]Feature, len(names))
	for i, name := range names {
		of[i] = Feature(name)
	}
	return of
}

// FeatureNames returns the names of features.
func FeatureNames(of []Feature) []string {
	names := make([]string, len(of))
	for i, f := range of {
		names[i] = string(f)
	}
	return names
}
