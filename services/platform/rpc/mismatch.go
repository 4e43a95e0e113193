package rpc

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"switchyard.dev/services/platform/screen"
	"switchyard.dev/services/platform/spelling"
)

// mismatch returns the first place where a JSON object doesn't match a message, as "path: rule", or "" if it finds
// none. It runs after decoding has failed: the decoder's own error texts name no path and repeat values, which may be
// secret.
func (c *codec) mismatch(object gjson.Result, desc protoreflect.MessageDescriptor, path string) string {
	var found string
	object.ForEach(func(key, value gjson.Result) bool {
		field := fieldOf(desc, key.Str)
		if field == nil {
			found = unknownField(desc, path, key.Str)
			return false
		}
		found = c.mismatchField(value, field, path+string(field.Name()))
		return found == ""
	})
	return found
}

// unknownField returns the error for a name that no field of a message has. It repeats the name only if screen.IsName
// permits it, because a key may have been sent in place of a name.
func unknownField(desc protoreflect.MessageDescriptor, path, name string) string {
	hint := spelling.Hint(name, "fields", fieldNames(desc))
	if screen.IsName(name) {
		return path + name + ": unknown field" + hint
	}
	return cmp.Or(strings.TrimSuffix(path, "."), "body") + ": holds an unknown field" + hint
}

// fieldNames returns the names of a message's fields on the JSON face.
func fieldNames(desc protoreflect.MessageDescriptor) (names []string) {
	for i := range desc.Fields().Len() {
		if field := desc.Fields().Get(i); !isHidden(field) {
			names = append(names, field.TextName())
		}
	}
	return names
}

func (c *codec) mismatchField(value gjson.Result, field protoreflect.FieldDescriptor, path string) string {
	switch {
	case value.Type == gjson.Null:
		return ""
	case field.IsMap():
		if !value.IsObject() {
			return path + ": must be an object"
		}
		var found string
		value.ForEach(func(key, item gjson.Result) bool {
			found = c.mismatchValue(item, field.MapValue(), path+"."+screen.Path(key.Str, "."))
			return found == ""
		})
		return found
	case field.IsList():
		if !value.IsArray() {
			return path + ": must be an array"
		}
		var found string
		i := 0
		value.ForEach(func(_, item gjson.Result) bool {
			found = c.mismatchValue(item, field, path+"["+strconv.Itoa(i)+"]")
			i++
			return found == ""
		})
		return found
	}
	return c.mismatchValue(value, field, path)
}

func (c *codec) mismatchValue(value gjson.Result, field protoreflect.FieldDescriptor, path string) string {
	if c.isRaw(field) {
		return ""
	}
	rule := ""
	switch field.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.EnumKind:
		if value.Type != gjson.String {
			rule = "must be a string"
		}
	case protoreflect.BoolKind:
		if !value.IsBool() {
			rule = "must be true or false"
		}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		if _, err := strconv.ParseFloat(number(value), 64); err != nil {
			rule = "must be a number"
		}
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return c.mismatchMessage(value, field.Message(), path)
	default:
		rule = integerRule(value, field.Kind())
	}
	if rule == "" {
		return ""
	}
	return path + ": " + rule
}

func (c *codec) mismatchMessage(value gjson.Result, desc protoreflect.MessageDescriptor, path string) string {
	switch name := desc.FullName(); {
	case name == "google.protobuf.Timestamp":
		if _, err := time.Parse(time.RFC3339, value.Str); err != nil {
			return path + ": must be an RFC 3339 time"
		}
		return ""
	case strings.HasPrefix(string(name), "google.protobuf.") && strings.HasSuffix(string(name), "Value"):
		return c.mismatchValue(value, desc.Fields().ByName("value"), path)
	case !value.IsObject():
		return path + ": must be an object"
	}
	return c.mismatch(value, desc, path+".")
}

// number returns the text of a number, which may be in a string.
func number(value gjson.Result) string {
	if value.Type == gjson.String {
		return value.Str
	}
	return value.Raw
}

func integerRule(value gjson.Result, kind protoreflect.Kind) string {
	low, high := int64(math.MinInt32), int64(math.MaxInt32)
	if kind == protoreflect.Uint32Kind || kind == protoreflect.Fixed32Kind {
		low, high = 0, math.MaxUint32
	}
	n, err := strconv.ParseFloat(number(value), 64)
	if (value.Type != gjson.Number && value.Type != gjson.String) || err != nil || n != math.Trunc(n) || n < float64(low) || n > float64(high) {
		return "must be an integer from " + strconv.FormatInt(low, 10) + " to " + strconv.FormatInt(high, 10)
	}
	return ""
}
