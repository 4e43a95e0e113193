package policy

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Problem is what is wrong, or worth a warning, at a place in a configuration file.
type Problem struct {
	File string
	// Line and Column count from 1; 0 is not known.
	Line, Column int
	// Path is the setting, such as "providers[2].models[0].name"; empty for the file as a whole.
	Path, Rule string
}

// String returns "file:line:column: path: rule", as editors and CI read it.
func (p Problem) String() string {
	text := p.File + ":"
	if p.Line > 0 {
		text += fmt.Sprintf("%d:%d:", p.Line, max(p.Column, 1))
	}
	if p.Path != "" {
		text += " " + p.Path + ":"
	}
	return text + " " + p.Rule
}

// Locator finds the places of settings in configuration files.
type Locator struct{ files []located }

type located struct {
	name string
	text []string
	root *yaml.Node
}

// NewLocator returns a Locator of a policy and the file of further providers, as Parse takes them.
func NewLocator(policy, extra Source) *Locator {
	l := &Locator{}
	for _, source := range []Source{{Name: policy.name(), Text: policy.Text}, {Name: extra.extraName(), Text: extra.Text}} {
		var root yaml.Node
		_ = yaml.Unmarshal(source.Text, &root) // A file that is not YAML has lines only.
		l.files = append(l.files, located{source.Name, strings.Split(string(source.Text), "\n"), &root})
	}
	return l
}

// Problems returns the problems that an error of Parse joins, at most maxChanges of them and one that counts the rest. A
// problem that names no file is one of the policy.
func (l *Locator) Problems(err error) []Problem {
	var all []Problem
	for _, each := range flat(err) {
		text := strings.ReplaceAll(each.Error(), "\n", " ")
		f := &l.files[0]
		for i := range l.files {
			if rest, found := strings.CutPrefix(text, l.files[i].name+": "); found {
				f, text = &l.files[i], rest
				break
			}
		}
		all = append(all, l.split(f, text)...)
		if len(all) > maxChanges {
			rest := len(flat(err)) - maxChanges
			return append(all[:maxChanges], Problem{File: f.name, Rule: fmt.Sprintf("and at least %d more", max(rest, 1))})
		}
	}
	return all
}

// lines separates the errors of the YAML library, which come together.
var lines = regexp.MustCompile(`(?:^|; )line (\d+): `)

// split returns the problems that a text without its file's name tells.
func (l *Locator) split(f *located, text string) []Problem {
	at := lines.FindAllStringSubmatchIndex(text, -1)
	if len(at) == 0 || at[0][0] != 0 {
		return []Problem{l.problem(f, text)}
	}
	var all []Problem
	for i, match := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		line, _ := strconv.Atoi(text[match[2]:match[3]]) // The pattern has digits only; too many are no line.
		all = append(all, Problem{File: f.name, Line: line, Column: f.indent(line), Rule: text[match[1]:end]})
	}
	return all
}

// indent returns the column at which the text of a line begins.
func (f *located) indent(line int) int {
	if line < 1 || line > len(f.text) {
		return 0
	}
	return len(f.text[line-1]) - len(strings.TrimLeft(f.text[line-1], " \t")) + 1
}

var (
	// segment matches a part of a path at the beginning of a text, with the name of what it is: `models[1] "m": `.
	segment = regexp.MustCompile(`^([a-z_]+(?:\[\d+\])?(?:\.[a-z_]+(?:\[\d+\])?)*)((?:, [a-z_]+)*)(?: "(?:[^"\\]|\\.)*")?: `)
	// ofProvider matches errors about a provider or model that are found apart from its file.
	ofProvider = regexp.MustCompile(`^(?:provider|price of) ([a-z0-9._-]+)(?:/(\S+))?: `)
	// quoted matches a value at the beginning of a rule.
	quoted = regexp.MustCompile(`^"((?:[^"\\]|\\.)*)"`)
)

// problem returns the problem that a text tells, with the place of its path.
func (l *Locator) problem(f *located, text string) Problem {
	p := Problem{File: f.name, Rule: text}
	here := f.document()
	if match := ofProvider.FindStringSubmatch(text); match != nil {
		p = l.Model(provider.Target{Provider: match[1], Model: match[2]})
		p.Rule = text[len(match[0]):]
		here = l.node(p)
	}
	for {
		match := segment.FindStringSubmatch(p.Rule)
		if match == nil {
			break
		}
		p.Path = strings.TrimPrefix(p.Path+"."+match[1]+match[2], ".")
		p.Rule = p.Rule[len(match[0]):]
		here = descend(here, match[1])
	}
	value := here.node
	if match := quoted.FindStringSubmatch(p.Rule); match != nil {
		if name, err := strconv.Unquote(match[0]); err == nil {
			if found := scalarIn(value, name); found != nil {
				here = place{found, found}
			}
		}
	}
	if here.at != nil {
		p.Line, p.Column = here.at.Line, here.at.Column
	}
	return p
}

// place is a node, and the node whose position stands for it: the key of a mapping's value.
type place struct{ node, at *yaml.Node }

func (f *located) document() place {
	if len(f.root.Content) == 0 {
		return place{f.root, nil}
	}
	return place{f.root.Content[0], f.root.Content[0]}
}

func (l *Locator) file(name string) *located {
	for i := range l.files {
		if l.files[i].name == name {
			return &l.files[i]
		}
	}
	return &l.files[0]
}

// descend follows a path as far as the file has it.
func descend(from place, path string) place {
	for _, part := range strings.FieldsFunc(path, func(c rune) bool { return c == '.' || c == '[' || c == ']' }) {
		next, ok := child(from.node, part)
		if !ok {
			break
		}
		from = next
	}
	return from
}

// child returns the value of a key, or the element of an index.
func child(of *yaml.Node, part string) (place, bool) {
	if of.Kind == yaml.AliasNode {
		of = of.Alias
	}
	switch of.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(of.Content); i += 2 {
			if key, value := of.Content[i], of.Content[i+1]; key.Value == part {
				return place{value, key}, true
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(part); err == nil && i < len(of.Content) {
			return place{of.Content[i], of.Content[i]}, true
		}
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
	}
	return place{}, false
}

// scalarIn returns the first scalar of a value below a node; nil if there is none.
func scalarIn(node *yaml.Node, value string) *yaml.Node {
	if node.Kind == yaml.ScalarNode && node.Value == value {
		return node
	}
	for _, each := range node.Content {
		if found := scalarIn(each, value); found != nil {
			return found
		}
	}
	return nil
}

// Model returns the place of a model, or of a provider where the model is empty, without a rule: in the file of further
// providers if it is there, or else in the policy.
func (l *Locator) Model(t provider.Target) Problem {
	for i := len(l.files) - 1; i >= 0; i-- {
		f := &l.files[i]
		providers, _ := child(f.document().node, "providers")
		if at, found := named(providers.node, t.Provider); found {
			p := Problem{File: f.name, Path: fmt.Sprintf("providers[%d]", at)}
			here := descend(f.document(), p.Path)
			models, _ := child(here.node, "models")
			if at, found := named(models.node, t.Model); found && t.Model != "" {
				p.Path += fmt.Sprintf(".models[%d]", at)
				here = descend(f.document(), p.Path)
			} else if t.Model != "" && i > 0 {
				continue // Its models are those of the provider that it replaces.
			}
			p.Line, p.Column = here.at.Line, here.at.Column
			return p
		}
	}
	return Problem{File: l.files[0].name}
}

// node returns the place that a Problem's path has in its file.
func (l *Locator) node(p Problem) place { return descend(l.file(p.File).document(), p.Path) }

// named returns the index of the element of a list that has a name, or is the name.
func named(list *yaml.Node, name string) (int, bool) {
	if list == nil {
		return 0, false
	}
	if list.Kind == yaml.AliasNode {
		list = list.Alias
	}
	for i, each := range list.Content {
		value, ok := child(each, "name")
		if ok && value.node.Value == name || !ok && each.Kind == yaml.ScalarNode && each.Value == name {
			return i, true
		}
	}
	return 0, false
}
