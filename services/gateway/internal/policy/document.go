package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/strictyaml"
)

// document is the policy file.
type document struct {
	// DefaultModel serves requests that name no model.
	DefaultModel perOperation[string] `yaml:"default_model"`
	DefaultGoal  Goal                 `yaml:"default_goal"`
	Providers    []Provider           `yaml:"providers"`
	// Goals ranks targets for each goal, best first.
	Goals map[Goal][]tier `yaml:"goals"`
	// Ladder is tried, in order, if the requested model fails.
	Ladder             perOperation[[]string] `yaml:"ladder"`
	DataClassification []Tenant               `yaml:"data_classification"`
	Resilience         Resilience             `yaml:"resilience"`
	// Hedge is when requests of a goal are hedged; a goal without an entry never.
	Hedge  map[Goal]Hedge `yaml:"hedge"`
	Cache  Cache          `yaml:"cache"`
	Budget Budget         `yaml:"budget"`
	// Quotas limits organizations.
	Quotas Quotas `yaml:"quotas"`
	Traces Traces `yaml:"traces"`
	// ToolsNeedingApproval are patterns of tool names; "*" stands for any characters.
	ToolsNeedingApproval []string `yaml:"tools_needing_approval"`
	// Tools are the settings for calls of tools of MCP servers.
	Tools Tools `yaml:"tools"`
	// HostedTools is what happens to requests that offer the model tools of a vendor's own where no provider has them:
	// "offer" (the default) serves without the tools, "refuse" refuses.
	HostedTools string `yaml:"hosted_tools"`
	// Byok is the mode of requests that name none.
	Byok keyring.Mode `yaml:"byok"`

	// name and extraName are the names of the policy's file and of that of further providers, extra the index of each
	// provider of the latter.
	name, extraName string
	extra           map[string]int
	// replaced are the providers whose models another file defines: models that the policy ranks may no longer exist.
	replaced map[string]bool
}

// further is the file of further providers.
type further struct {
	Providers []Provider `yaml:"providers"`
}

// perOperation is a setting for each operation: a mapping by operation, or one value for all operations of
// the contract that support it.
type perOperation[T any] struct {
	of  map[provider.Operation]T
	all bool
}

// UnmarshalYAML reads either form.
func (p *perOperation[T]) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.MappingNode {
		return node.Decode(&p.of)
	}
	var one T
	if err := node.Decode(&one); err != nil {
		return err
	}
	p.all, p.of = true, make(map[provider.Operation]T)
	for _, operation := range provider.Contracted().List() {
		p.of[operation] = one
	}
	return nil
}

// tier is a target, or several of equal rank.
type tier []string

// UnmarshalYAML reads a name, or a list of names.
func (t *tier) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*t = tier{node.Value}
		return nil
	}
	return node.Decode((*[]string)(t))
}

// UnmarshalYAML reads a model given as a name, or as a mapping.
func (m *Model) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		m.Name = node.Value
		return nil
	}
	type plain Model
	return strictNode(node, (*plain)(m))
}

// Source is a configuration file.
type Source struct {
	// Name is the file's name in errors; empty for a file that is compiled in.
	Name string
	Text []byte
	// KeysDir is the folder of relative key_files; if empty, they can't be read.
	KeysDir string
}

// Parse reads a policy, and the file of further providers, which may be empty. A further provider replaces a provider
// of the same name; if it lists no models, it keeps the models of the replaced one. The error joins those of all parts that
// break a rule; each names the file, the path in it and the rule.
func Parse(policy, extra Source) (*Policy, error) {
	doc := document{Resilience: defaults, name: policy.name(), extraName: extra.extraName()}
	var more further
	var wrong failures
	wrong.add(doc.name, strict(policy.Text, &doc))
	wrong.add(doc.extraName, strict(extra.Text, &more))
	if err := wrong.err(); err != nil {
		return nil, err
	}
	wrong.add(doc.name, checkProviders(policy, doc.Providers))
	wrong.add(doc.extraName, checkProviders(extra, more.Providers))
	if err := wrong.err(); err != nil {
		return nil, err
	}
	doc.add(more.Providers)
	p, err := build(doc)
	if err != nil {
		return nil, err
	}
	p.version = Hash(policy.Text, extra.Text)
	return p, nil
}

// name returns the name of a policy file in errors, extraName that of a file of further providers.
func (s Source) name() string      { return cmp.Or(s.Name, "policy") }
func (s Source) extraName() string { return cmp.Or(s.Name, "extra providers") }

// add adds further providers, which replace those of the same name.
func (doc *document) add(more []Provider) {
	doc.replaced, doc.extra = make(map[string]bool), make(map[string]int)
	for at, provider := range more {
		doc.extra[provider.Name] = at
		i := slices.IndexFunc(doc.Providers, func(p Provider) bool { return p.Name == provider.Name })
		if i < 0 {
			doc.Providers = append(doc.Providers, provider)
			continue
		}
		if old := doc.Providers[i]; len(provider.Models) == 0 {
			provider.Models = old.Models
			provider.Capabilities = provider.withDefaults(old.Capabilities)
		} else {
			doc.replaced[provider.Name] = true
		}
		if provider.Aliases == nil {
			provider.Aliases = doc.Providers[i].Aliases
		}
		doc.Providers[i] = provider
	}
}

// Hash returns a short hash of configuration texts.
func Hash(texts ...[]byte) string {
	sum := sha256.New()
	for _, text := range texts {
		sum.Write([]byte(strconv.Itoa(len(text)) + ":"))
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// strict decodes a file; one without content changes nothing.
func strict(text []byte, into any) error {
	if err := strictyaml.Decode(text, into); !errors.Is(err, strictyaml.ErrEmpty) {
		return err
	}
	return nil
}

// strictNode decodes a part of a file; node.Decode would ignore unknown fields.
func strictNode(node *yaml.Node, into any) error {
	text, err := yaml.Marshal(node)
	if err != nil {
		return fmt.Errorf("line %d: %w", node.Line, err)
	}
	if err := strict(text, into); err != nil {
		return fmt.Errorf("line %d: %s", node.Line, innerLine.ReplaceAllString(err.Error(), ""))
	}
	return nil
}

// innerLine matches a line number within a part of a file, which is wrong for the whole file.
var innerLine = regexp.MustCompile(`\bline \d+: `)

// absolute returns the absolute path of a file that holds a secret; an empty path stays empty.
func (s *Source) absolute(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(cmp.Or(s.KeysDir, noKeysDir), path)
}

// noKeysDir is the folder of relative key files without a KeysDir. It does not exist.
const noKeysDir = "/nonexistent"

var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// checkProviders checks a file's providers, and makes the paths of their files absolute, so that they don't depend on
// the working directory.
func checkProviders(source Source, providers []Provider) error {
	var wrong failures
	seen := make(map[string]bool)
	for i := range providers {
		p := &providers[i]
		err := p.check()
		if err == nil && seen[p.Name] {
			err = errors.New("name: appears twice")
		}
		if err == nil {
			err = p.resolve(&source)
		}
		wrong.add(fmt.Sprintf("providers[%d] %q", i, p.Name), err)
		seen[p.Name] = true
	}
	return wrong.err()
}
