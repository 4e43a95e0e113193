// Package modelid knows which names of models mean the same model. A model has other names at its vendor's own API, on
// Amazon Bedrock, on Vertex AI and elsewhere; its identity is one name for all of them, so that a host of one name can
// stand in for a host of another. Package policy finds the identity of each configured model with it, and package
// pricelist matches a list of prices with the models that are configured.
package modelid

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"switchyard.dev/services/gateway/shipped"
	"switchyard.dev/services/platform/strictyaml"
)

// profiles are the prefixes of Amazon Bedrock's inference profiles: where a request may be computed. They are no part of
// a model's identity.
var profiles = []string{"us.", "eu.", "apac.", "jp.", "au.", "global.", "us-gov."}

// SplitProfile splits the prefix of an inference profile, such as "us.", from a name. The prefix is empty if there is
// none.
func SplitProfile(name string) (profile, rest string) {
	for _, prefix := range profiles {
		if rest, found := strings.CutPrefix(name, prefix); found {
			return prefix, rest
		}
	}
	return "", name
}

// Table finds the identities of names. It is immutable.
type Table struct {
	byName    map[string]string
	byBedrock map[string]string
}

// document is the form of the table's file.
type document struct {
	Models []struct {
		// Identity is a name of the model, too.
		Identity string   `yaml:"identity"`
		Names    []string `yaml:"names"`
		// Bedrock are names that may have the prefix of an inference profile.
		Bedrock []string `yaml:"bedrock"`
	} `yaml:"models"`
}

// Parse reads a table (YAML, strict: an unknown field is an error). A name that has two identities is an error.
func Parse(text []byte) (*Table, error) {
	var doc document
	if err := strictyaml.Decode(text, &doc); err != nil && !errors.Is(err, strictyaml.ErrEmpty) {
		return nil, fmt.Errorf("identities: %w", err)
	}
	t := &Table{byName: make(map[string]string), byBedrock: make(map[string]string)}
	for i, model := range doc.Models {
		if model.Identity == "" {
			return nil, fmt.Errorf("identities: models[%d].identity: is required", i)
		}
		for _, name := range append([]string{model.Identity}, append(model.Names, model.Bedrock...)...) {
			if other, taken := t.byName[name]; taken || name == "" {
				return nil, fmt.Errorf("identities: models[%d] %q: %q is empty or listed twice (of %q)", i, model.Identity, name, other)
			}
			t.byName[name] = model.Identity
		}
		for _, name := range model.Bedrock {
			t.byBedrock[name] = model.Identity
		}
	}
	return t, nil
}

// Of returns the identity of a name; empty if it is not known.
func (t *Table) Of(name string) string {
	if identity, known := t.byName[name]; known {
		return identity
	}
	if profile, rest := SplitProfile(name); profile != "" {
		return t.byBedrock[rest]
	}
	return ""
}

// Of returns the identity of a name by the shipped table; empty if it is not known.
func Of(name string) string { return table().Of(name) }

// table returns the shipped table. It is compiled in, and a test reads it.
var table = sync.OnceValue(func() *Table {
	t, err := Parse(shipped.Identities)
	if err != nil {
		panic(err)
	}
	return t
})
