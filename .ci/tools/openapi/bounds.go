package main

import (
	"slices"
	"strings"

	"github.com/envoyproxy/protoc-gen-validate/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

type object = map[string]any

// bound adds the validation rules of a package of the contract to the schemas and parameters of its document.
func bound(document object, contract *protoregistry.Files, pkg string) {
	definitions, _ := document["definitions"].(object)
	for name, definition := range definitions {
		if message := messageOf(contract, pkg, strings.TrimPrefix(name, "v1")); message != nil {
			boundSchema(definition.(object), message)
		}
	}
	paths, _ := document["paths"].(object)
	for _, methods := range paths {
		for _, operation := range methods.(object) {
			boundOperation(operation.(object), definitions, contract, pkg)
		}
	}
}

// boundOperation adds the rules of a method's request to its parameters, and to the schema of its body where the plugin
// made one for the fields that are not in the path.
func boundOperation(operation, definitions object, contract *protoregistry.Files, pkg string) {
	id, _ := operation["operationId"].(string)
	service, method, _ := strings.Cut(id, "_")
	request := requestOf(contract, pkg, service, method)
	if request == nil {
		return
	}
	if body, ok := definitions[service+method+"Body"].(object); ok {
		boundSchema(body, request)
	}
	parameters, _ := operation["parameters"].([]any)
	for _, p := range parameters {
		parameter := p.(object)
		name, _ := parameter["name"].(string)
		if field := request.Fields().ByName(protoreflect.Name(name)); field != nil && parameter["in"] != "body" {
			boundField(parameter, field)
		}
	}
}

func messageOf(contract *protoregistry.Files, pkg, name string) protoreflect.MessageDescriptor {
	found, err := contract.FindDescriptorByName(protoreflect.FullName(pkg + "." + name))
	if err != nil {
		return nil // A body of the plugin's own, or a message of another package.
	}
	message, _ := found.(protoreflect.MessageDescriptor)
	return message
}

func requestOf(contract *protoregistry.Files, pkg, service, method string) protoreflect.MessageDescriptor {
	found, err := contract.FindDescriptorByName(protoreflect.FullName(pkg + "." + service))
	if err != nil {
		return nil
	}
	described, ok := found.(protoreflect.ServiceDescriptor)
	if !ok || described.Methods().ByName(protoreflect.Name(method)) == nil {
		return nil
	}
	return described.Methods().ByName(protoreflect.Name(method)).Input()
}

// boundSchema adds the rules of a message's fields to its properties, and the list of those that must be there.
func boundSchema(schema object, message protoreflect.MessageDescriptor) {
	properties, _ := schema["properties"].(object)
	var required []string
	for name, property := range properties {
		field := message.Fields().ByName(protoreflect.Name(name))
		if field == nil {
			continue
		}
		if boundField(property.(object), field) {
			required = append(required, name)
		}
	}
	if len(required) > 0 {
		slices.Sort(required)
		schema["required"] = required
	}
}

// boundField adds a field's rules to its schema. It reports whether a request without the field breaks them: an absent
// field has the zero value, unless its presence is known or rules ignore that value.
func boundField(schema object, field protoreflect.FieldDescriptor) (required bool) {
	options, _ := field.Options().(*descriptorpb.FieldOptions)
	rules, _ := proto.GetExtension(options, validate.E_Rules).(*validate.FieldRules)
	if rules == nil {
		return false
	}
	addRules(schema, rules)
	if field.HasPresence() && field.Message() == nil {
		return false
	}
	return refusesZero(rules)
}

func refusesZero(rules *validate.FieldRules) bool {
	switch {
	case rules.GetMessage().GetRequired(), rules.GetTimestamp().GetRequired(), rules.GetDuration().GetRequired():
		return true
	case rules.GetString_() != nil:
		s := rules.GetString_()
		return !s.GetIgnoreEmpty() && (s.GetMinLen() > 0 || s.GetMinBytes() > 0 || len(s.In) > 0 && !slices.Contains(s.In, ""))
	case rules.GetBytes() != nil:
		return !rules.GetBytes().GetIgnoreEmpty() && rules.GetBytes().GetMinLen() > 0
	case rules.GetRepeated() != nil:
		return !rules.GetRepeated().GetIgnoreEmpty() && rules.GetRepeated().GetMinItems() > 0
	case rules.GetMap() != nil:
		return !rules.GetMap().GetIgnoreEmpty() && rules.GetMap().GetMinPairs() > 0
	case rules.GetInt32() != nil:
		return !rules.GetInt32().GetIgnoreEmpty() && rules.GetInt32().GetGte() > 0
	case rules.GetInt64() != nil:
		return !rules.GetInt64().GetIgnoreEmpty() && rules.GetInt64().GetGte() > 0
	}
	return false
}

// addRules adds rules to a schema, as keywords of JSON Schema. Those of bytes are about the text of any JSON value, for
// which there is no keyword.
func addRules(schema object, rules *validate.FieldRules) {
	switch rule := rules.Type.(type) {
	case *validate.FieldRules_String_:
		addString(schema, rule.String_)
	case *validate.FieldRules_Int32:
		put(schema, "minimum", rule.Int32.Gte)
		put(schema, "maximum", rule.Int32.Lte)
	case *validate.FieldRules_Int64: // JSON has it as a string or a number.
		put(schema, "minimum", rule.Int64.Gte)
		put(schema, "maximum", rule.Int64.Lte)
	case *validate.FieldRules_Double:
		put(schema, "minimum", rule.Double.Gte)
		put(schema, "maximum", rule.Double.Lte)
	case *validate.FieldRules_Repeated:
		put(schema, "minItems", rule.Repeated.MinItems)
		put(schema, "maxItems", rule.Repeated.MaxItems)
		put(schema, "uniqueItems", rule.Repeated.Unique)
		if items, ok := schema["items"].(object); ok && rule.Repeated.Items != nil {
			addRules(items, rule.Repeated.Items)
		}
	case *validate.FieldRules_Map:
		put(schema, "minProperties", rule.Map.MinPairs)
		put(schema, "maxProperties", rule.Map.MaxPairs)
		if values, ok := schema["additionalProperties"].(object); ok && rule.Map.Values != nil {
			addRules(values, rule.Map.Values)
		}
	}
}

func addString(schema object, rule *validate.StringRules) {
	put(schema, "minLength", rule.MinLen)
	put(schema, "maxLength", rule.MaxLen)
	put(schema, "pattern", rule.Pattern)
	if rule.MaxBytes != nil { // A character has a byte or more.
		put(schema, "maxLength", rule.MaxBytes)
	}
	if len(rule.In) > 0 {
		schema["enum"] = slices.DeleteFunc(slices.Clone(rule.In), func(value string) bool { return value == "" })
	}
	if rule.GetEmail() {
		schema["format"] = "email"
	}
}

// put adds a keyword whose value is set. A reference has no other keywords.
func put[T any](schema object, keyword string, value *T) {
	if _, isReference := schema["$ref"]; value != nil && !isReference {
		schema[keyword] = *value
	}
}
