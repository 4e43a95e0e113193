package config

import (
	"reflect"
	"slices"
	"strings"
)

// setting is one field of a configuration struct and the values of its tags.
type setting struct {
	name     string // full name of the variable
	prefix   string // the part of the name before that of the env tag
	fallback string // the envDefault tag
	doc      string
	required bool
	when     string // the required tag: when a setting is required that isn't always
	field    reflect.StructField
	value    reflect.Value
}

// settings returns the settings of cfg, a struct or a pointer to one, in the order of its fields. Their values can only
// be set if cfg is a pointer.
func settings(prefix string, cfg any) []setting {
	return walk(prefix+"_", reflect.Indirect(reflect.ValueOf(cfg)))
}

func walk(prefix string, group reflect.Value) []setting {
	var found []setting
	for field, value := range group.Fields() {
		tag, tagged := field.Tag.Lookup("env")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case tagged && name != "-" && field.IsExported():
			found = append(found, setting{
				name: prefix + name, prefix: prefix,
				fallback: field.Tag.Get("envDefault"), doc: field.Tag.Get("doc"),
				required: slices.Contains(strings.Split(options, ","), "required"), when: field.Tag.Get("required"),
				field: field, value: value,
			})
		case !tagged && field.Type.Kind() == reflect.Struct && (field.IsExported() || field.Anonymous):
			found = append(found, walk(prefix+field.Tag.Get("envPrefix"), value)...)
		}
	}
	return found
}
