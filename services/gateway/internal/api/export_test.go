package api

import (
	"reflect"
	"strings"
)

// ToText gives tests the reading of a JSON string.
var ToText = toText

// ExtensionFields lists what a body in another API's words may say to this gateway.
func ExtensionFields() (names []string) {
	for field := range reflect.TypeFor[extension]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
