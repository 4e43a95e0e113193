package sandbox

import (
	"encoding/json"
	"strings"
)

// maxNodes bounds the values made from schemas that contain themselves, or many items of many items. maxRead bounds the
// bytes that are read for that: each value reads its whole schema, and may repeat a constant.
const (
	maxNodes = 256
	maxRead  = 1 << 20
)

type schema struct {
	Type       any               `json:"type"`
	Const      any               `json:"const"`
	Default    any               `json:"default"`
	Enum       []any             `json:"enum"`
	AnyOf      []json.RawMessage `json:"anyOf"`
	OneOf      []json.RawMessage `json:"oneOf"`
	Properties map[string]json.RawMessage
	Required   []string
	Items      json.RawMessage
	Ref        string `json:"$ref"`
	Minimum    float64
	MinItems   int
	MinLength  int
}

// instance returns a JSON value for a JSON schema (draft 2020-12): the required fields only, each with the simplest
// value that its type, const, enum, default and lower bounds allow. Other keywords are ignored.
func instance(root json.RawMessage) string {
	if len(root) == 0 {
		return "{}"
	}
	m := maker{root: root, values: maxNodes, bytes: maxRead}
	text, err := json.Marshal(m.value(root))
	if err != nil {
		return "{}"
	}
	return string(text)
}

type maker struct {
	root   json.RawMessage
	values int // values
	bytes  int // bytes to read
}

func (m *maker) value(raw json.RawMessage) any {
	var s schema
	if m.values--; m.values < 0 {
		return nil
	}
	if m.bytes -= len(raw); m.bytes < 0 {
		return nil
	}
	if json.Unmarshal(raw, &s) != nil {
		return map[string]any{} // true, or no schema: any value is valid.
	}
	switch {
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Default != nil:
		return s.Default
	case s.Ref != "":
		return m.value(m.resolve(s.Ref))
	case len(s.AnyOf) > 0:
		return m.value(s.AnyOf[0])
	case len(s.OneOf) > 0:
		return m.value(s.OneOf[0])
	}
	return m.plain(s)
}

func (m *maker) plain(s schema) any {
	switch s.kind() {
	case "string":
		return "sandbox" + strings.Repeat("x", min(max(0, s.MinLength-len("sandbox")), 1<<10))
	case "number", "integer":
		return s.Minimum
	case "boolean":
		return false
	case "null":
		return nil
	case "array":
		list := []any{}
		for range min(s.MinItems, maxNodes) {
			list = append(list, m.value(s.Items))
		}
		return list
	}
	object := map[string]any{}
	for _, name := range s.Required {
		object[name] = m.value(s.Properties[name])
	}
	return object
}

// kind returns the type of a schema, or the first of several; empty if it has none, which means an object.
func (s schema) kind() string {
	if list, ok := s.Type.([]any); ok && len(list) > 0 {
		s.Type = list[0]
	}
	kind, _ := s.Type.(string)
	return kind
}

// resolve follows a JSON pointer inside the document ("#/$defs/city").
func (m *maker) resolve(ref string) json.RawMessage {
	root := m.root
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#"), "/") {
		if name == "" {
			continue
		}
		var object map[string]json.RawMessage
		if m.bytes -= len(root); m.bytes < 0 || json.Unmarshal(root, &object) != nil {
			return nil
		}
		root = object[name]
	}
	return root
}
