package config

import (
	"reflect"
	"slices"
	"strings"
)

// setting is one field of a configuration with what its tags say.
type setting struct {
	name     string // the full variable
	prefix   string // what of the name stands before the env tag's own part
	fallback string // the envDefault tag
	doc      string
	required bool
	field    reflect.StructField
	value    reflect.Value
}

// settings lists the settings of cfg, a struct or a pointer to one, in the
// order of its fields. Only behind a pointer can their values be set.
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
				required: slices.Contains(strings.Split(options, ","), "required"),
				field:    field, value: value,
			})
		case !tagged && field.Type.Kind() == reflect.Struct && (field.IsExported() || field.Anonymous):
			found = append(found, walk(prefix+field.Tag.Get("envPrefix"), value)...)
		}
	}
	return found
}
