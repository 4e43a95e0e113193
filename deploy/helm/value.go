package main

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// services are the names of the manifests' services, with their names in the values.
var services = map[string]string{"edge": "edge", "control": "control", "gateway": "gateway", "webhook-egress": "webhookEgress", "notify": "notify"}

// values collects what the chart's values are by default: what the manifests say where a value takes its place.
type values struct {
	root *yaml.Node
	env  map[string]map[string]bool // by the service whose settings they are: variables that the manifests set
	errs []error
}

func newValues() *values {
	v := &values{root: &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, env: make(map[string]map[string]bool)}
	for _, c := range []string{"ingress", "otel", "prometheus", "mtls", "spoolVolumes"} {
		v.set("components."+c, true)
	}
	v.set("components.gatewayApi", false)
	v.set("components.signingKeys", false)
	v.set("components.backlog", "adapter")
	v.set("image.registry", "registry.example.com/switchyard")
	v.set("image.tag", "v0.1.0")
	v.set("image.pullPolicy", "")
	v.set("image.pullSecrets", noItems)
	return v
}

// set notes a default. A second one of the same name has to be the same.
func (v *values) set(name string, value any) {
	var leaf yaml.Node
	if n, ok := value.(*yaml.Node); ok {
		leaf = *n
	} else if err := leaf.Encode(value); err != nil {
		v.errs = append(v.errs, fmt.Errorf("%s: %w", name, err))
		return
	}
	leaf.Style, leaf.HeadComment, leaf.LineComment = 0, "", ""
	at := v.root
	keys := strings.Split(name, ".")
	for _, key := range keys[:len(keys)-1] {
		next := field(at, key)
		if next == nil {
			next = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
			at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, next)
		}
		at = next
	}
	last := keys[len(keys)-1]
	switch old := field(at, last); {
	case old == nil:
		at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: last}, &leaf)
	case canonical(old) != canonical(&leaf):
		v.errs = append(v.errs, fmt.Errorf("%s is %s in one place and %s in another", name, canonical(old), canonical(&leaf)))
	}
}

// put sets values in place of what operators change in an object.
func (v *values) put(o *object) {
	if test := scaled(o); test != "" {
		o.extra = append(o.extra, test)
	}
	if o.kind == "Issuer" || o.kind == "Certificate" {
		o.extra = append(o.extra, ".Values.mtls.certificates")
		v.set("mtls.certificates", true)
	}
	if o.kind == "Issuer" || o.kind == "Certificate" && o.name == "switchyard-ca" {
		o.extra = append(o.extra, ".Values.mtls.issuer.create")
		v.set("mtls.issuer.create", true)
	}
	v.walk(o, o.node, "")
}

// further has items of the operator's follow those of a sequence, or fields of theirs those of a mapping.
func (v *values) further(n *node, name string, none any) {
	v.set(name, none)
	n.extra = []string{"{{- with .Values." + name + " }}", "{{- toYaml . | nindent " + level + " }}", "{{- end }}"}
}

// filled adds a field of a mapping that is there once an operator fills it.
func (v *values) filled(n *node, key, name string, none any) {
	v.set(name, none)
	n.extra = append(n.extra, "{{- with .Values."+name+" }}", key+": {{- toYaml . | nindent "+deeper+" }}", "{{- end }}")
}

// The values without anything of the operator's.
var (
	noItems  = []string{}
	noFields = map[string]string{}
)

// scaled returns the test for an autoscaler.
func scaled(o *object) string {
	if o.kind != "HorizontalPodAutoscaler" && o.kind != "ScaledObject" {
		return ""
	}
	return ".Values." + services[o.name] + ".autoscaling.enabled"
}

// walk visits everything below a node. A path has the keys of fields, and the names or types of items.
func (v *values) walk(o *object, n *node, path string) {
	v.visit(o, n, path)
	if n.inline != "" {
		return
	}
	for _, p := range n.fields {
		v.walk(o, p.node, path+"/"+p.key)
	}
	for _, p := range n.items {
		v.walk(o, p.node, path+"/"+label(p.node))
	}
}

// label returns an item's name, or its type, or a star.
func label(n *node) string {
	for _, key := range []string{"name", "type"} {
		for _, p := range n.fields {
			if p.key == key && p.node.scalar != nil {
				return p.node.scalar.Value
			}
		}
	}
	return "*"
}

// take puts a value in a scalar's place, and notes the scalar as its default.
func (v *values) take(n *node, name string) {
	v.set(name, n.scalar)
	v.show(n, name)
}

// show puts a value in a scalar's place.
func (v *values) show(n *node, name string) {
	n.inline = "{{ .Values." + name + " }}"
	if n.scalar.Tag == "!!str" {
		n.inline = "{{ .Values." + name + " | quote }}"
	}
}

// takeWhole puts a value in the place of a mapping.
func (v *values) takeWhole(n *node, name string) {
	v.set(name, v.plain(n))
	n.inline = "{{- toYaml .Values." + name + " | nindent " + deeper + " }}"
}

// plain returns the YAML of a node that no switch changes.
func (v *values) plain(n *node) *yaml.Node {
	if n.scalar != nil {
		return n.scalar
	}
	all := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, p := range n.fields {
		if !p.when.always() {
			v.errs = append(v.errs, fmt.Errorf("%s depends on %s, so no value can stand for it", p.key, p.when))
		}
		all.Content = append(all.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: p.key}, v.plain(p.node))
	}
	return all
}

// camel returns a name with dashes as one in mixed caps.
func camel(name string) string {
	words := strings.Split(name, "-")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}
