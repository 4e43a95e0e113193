package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// rule is a JSON schema, or a part of one.
type rule = map[string]any

const (
	dnsName  = `^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`
	quantity = `^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti)?$`
)

// rules are what values must keep beyond their type, by their names; a star stands for one part of a name. The first
// that matches counts.
var rules = []struct {
	name string
	rule rule
}{
	{"components.backlog", rule{"enum": []string{"adapter", "keda", "none"}}},
	{"image.registry", rule{"type": "string", "pattern": `^[a-z0-9][a-zA-Z0-9._:/-]*[a-z0-9]$`}},
	{"*.image.registry", rule{"type": "string", "pattern": `^([a-z0-9][a-zA-Z0-9._:/-]*[a-z0-9])?$`}},
	{"*.image.repository", rule{"type": "string", "pattern": `^[a-z0-9][a-z0-9._/-]*$`}},
	{"image.tag", rule{"type": "string", "pattern": `^\w[\w.-]{0,127}$`}},
	{"*.image.tag", rule{"type": "string", "pattern": `^(\w[\w.-]{0,127})?$`}},
	{"*.image.digest", rule{"type": "string", "pattern": `^(sha256:[0-9a-f]{64})?$`}},
	{"image.pullPolicy", rule{"enum": []string{"", "Always", "IfNotPresent", "Never"}}},
	{"image.pullSecrets", list(rule{
		"type": "object", "required": []string{"name"}, "properties": rule{"name": rule{"type": "string", "pattern": dnsName}}, "additionalProperties": false,
	})},
	{"ingress.host", rule{"type": "string", "pattern": `^(\*\.)?[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`}},
	{"ingress.className", rule{"type": "string", "pattern": `^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$`}},
	{"ingress.annotations", rule{ // the component mtls adds the one that is refused
		"type": "object", "additionalProperties": rule{"type": []string{"string", "null"}},
		"properties": rule{"nginx.ingress.kubernetes.io/backend-protocol": false},
	}},
	{"gatewayApi.name", rule{"type": "string", "pattern": dnsName}},
	{"stores.networks", list(rule{"type": "string", "pattern": `^([0-9.]+|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)/[0-9]{1,3}$`})},
	{"stores.*Ports", rule{"type": "array", "minItems": 1, "items": rule{"type": "integer", "minimum": 1, "maximum": 65535}}},
	{"*.resources", rule{
		"type": "object", "required": []string{"requests", "limits"}, "additionalProperties": false,
		"properties": rule{"requests": amounts("cpu", "memory"), "limits": amounts("memory")},
	}},
	{"*.replicas", rule{"type": "integer", "minimum": 1, "maximum": 1000}},
	{"*.autoscaling.min", rule{"type": "integer", "minimum": 1, "maximum": 1000}},
	{"*.autoscaling.max", rule{"type": "integer", "minimum": 1, "maximum": 1000}},
	{"*.autoscaling.cpu", rule{"type": "integer", "minimum": 1, "maximum": 1000}},
	{"*.serviceAccount.annotations", texts},
	{"*.service.annotations", texts},
	{"prometheus.labels", texts},
	{"*.nodeSelector", texts},
	{"*.podLabels", rule{ // those of the manifests select pods
		"type": "object", "additionalProperties": rule{"type": "string"},
		"patternProperties": rule{`^(app\.kubernetes\.io|switchyard\.dev)/`: false},
	}},
	{"*.terminationGracePeriodSeconds", rule{"type": "integer", "minimum": 1}},
	{"*.migration.databaseUrlKey", rule{"type": "string", "pattern": `^[-._a-zA-Z0-9]+$`}},
	{"*.tolerations", list(rule{"type": "object"})},
	{"*.extraVolumes", list(rule{"type": "object", "required": []string{"name"}})},
	{"*.extraVolumeMounts", list(rule{"type": "object", "required": []string{"name", "mountPath"}})},
	{"*.byokSecretItems", list(rule{
		"type": "object", "required": []string{"key", "path"}, "additionalProperties": false,
		"properties": rule{"key": rule{"type": "string", "minLength": 1}, "path": rule{"type": "string", "minLength": 1}},
	})},
	{"*.spool.storageClass", rule{"type": "string", "pattern": `^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$`}},
	{"*.spool.*", rule{"type": "string", "pattern": quantity}},
	{"backlog.flows", rule{"type": "integer", "minimum": 1}},
	{"backlog.prometheus", rule{"type": "string", "pattern": `^https?://`}},
	{"prometheus.handbook", rule{"type": "string", "pattern": `^https?://[^#]+$`}},
	{"otel.endpoint", rule{"type": "string", "pattern": `^https?://`}},
	{"*.namespace", rule{"type": "string", "pattern": dnsName}},
	{"mtls.issuer.kind", rule{"enum": []string{"Issuer", "ClusterIssuer"}}},
	{"mtls.issuer.name", rule{"type": "string", "pattern": dnsName}},
	{"secrets.*", rule{"type": "string", "pattern": dnsName}},
	{"configMaps.*", rule{"type": "string", "pattern": dnsName}},
}

// texts is the schema of fields that are the operator's.
var texts = rule{"type": "object", "additionalProperties": rule{"type": "string"}}

// list is the schema of a list whose items are the operator's.
func list(item rule) rule { return rule{"type": "array", "items": item} }

// amounts is the schema of requests or limits, with those that pods must have.
func amounts(required ...string) rule {
	of := rule{"anyOf": []rule{{"type": "string", "pattern": `^[0-9]+(\.[0-9]+)?(m|Ki|Mi|Gi|Ti)?$`}, {"type": "number", "exclusiveMinimum": 0}}}
	return rule{"type": "object", "required": required, "additionalProperties": of}
}

// schema returns the schema of the values: no others than those that have a default, each by its rule or its type.
func (v *values) schema() ([]byte, error) {
	root := v.schemaOf(v.root, "")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Values of the chart switchyard. Made by `make chart`."
	// Helm itself adds it.
	if properties, ok := root["properties"].(rule); ok {
		properties["global"] = rule{"type": "object"}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(root)
	return text.Bytes(), err
}

func (v *values) schemaOf(n *yaml.Node, name string) rule {
	owner, last, _ := strings.Cut(name, ".")
	if last == "settings" {
		return v.settings(owner)
	}
	for _, r := range rules {
		if matches(r.name, name) {
			return maps.Clone(r.rule)
		}
	}
	switch n.Tag {
	case "!!bool":
		return rule{"type": "boolean"}
	case "!!int":
		return rule{"type": "integer"}
	case "!!map":
		properties := make(rule)
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i].Value
			properties[key] = v.schemaOf(n.Content[i+1], strings.TrimPrefix(name+"."+key, "."))
		}
		return rule{"type": "object", "properties": properties, "additionalProperties": false}
	default:
		return rule{"type": "string", "minLength": 1}
	}
}

// matches reports whether a name has the parts of a pattern.
func matches(pattern, name string) bool {
	slash := func(text string) string { return strings.ReplaceAll(text, ".", "/") }
	ok, err := path.Match(slash(pattern), slash(name))
	return ok && err == nil
}

// settings is the schema of a service's settings: its own and OTel's, without those that the manifests set.
func (v *values) settings(owner string) rule {
	prefix := strings.ToUpper(owner)
	for name, camel := range services {
		if camel == owner {
			prefix = strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		}
	}
	taken := make(rule)
	for name := range v.env[owner] {
		taken[name] = false
	}
	return rule{
		"type": "object", "properties": taken, "additionalProperties": false,
		"patternProperties": rule{"^(" + prefix + "|OTEL)_[A-Z0-9_]+$": rule{"type": "string"}},
	}
}
