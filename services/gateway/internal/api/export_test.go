package api

import (
	"reflect"
	"strings"
)

// ToText exports the decoding of a JSON string to tests.
var ToText = toText

// ExtensionFields returns the fields that a body of another API may set for this gateway.
func ExtensionFields() (names []string) {
	for field := range reflect.TypeFor[extension]().Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); field.IsExported() {
			names = append(names, name)
		}
	}
	return names
}
