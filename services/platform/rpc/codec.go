package rpc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/screen"
)

// codec is the JSON of the transcoded face: snake_case names, every field
// present, unknown fields refused, and bytes fields marked raw_json carried as
// the exact JSON text that arrived.
type codec struct {
	rawJSON protoreflect.ExtensionType
	// nullJSON marks optional fields that are null where they are absent; nil is none.
	nullJSON protoreflect.ExtensionType
	raw      sync.Map // protoreflect.FullName to bool: does the message hold marked fields?
	forms    sync.Map // reflect.Type to *form: how the quick way reads the message, nil if it can't
}

func newCodec(rawJSON, nullJSON protoreflect.ExtensionType) *codec {
	return &codec{rawJSON: rawJSON, nullJSON: nullJSON}
}

// ContentType is that of every answer of the face.
func (c *codec) ContentType(any) string { return "application/json" }

// Marshal renders a message. The text is compact: protojson varies its spaces
// between builds on purpose.
func (c *codec) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return json.Marshal(v)
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("marshal %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, fmt.Errorf("compact: %w", err)
	}
	if desc := m.ProtoReflect().Descriptor(); c.holdsRaw(desc) {
		return c.rewrite(nil, compact.Bytes(), desc, writing), nil
	}
	return compact.Bytes(), nil
}

// Unmarshal reads a message. Errors name the field or the byte.
func (c *codec) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return json.Unmarshal(data, v)
	}
	if c.quick(data, m) {
		return nil
	}
	return c.thorough(data, m)
}

func (c *codec) thorough(data []byte, m proto.Message) error {
	if err := checkObject(data); err != nil {
		return err
	}
	desc, text := m.ProtoReflect().Descriptor(), data
	if c.holdsRaw(desc) {
		text = c.rewrite(make([]byte, 0, len(data)), data, desc, reading)
	}
	if err := (protojson.UnmarshalOptions{}).Unmarshal(text, m); err != nil {
		if found := c.mismatch(gjson.ParseBytes(data), desc, ""); found != "" {
			return errors.New(found)
		}
		return errors.New("body: " + withoutValues(protoPrefix.ReplaceAllString(err.Error(), "")))
	}
	return nil
}

// protoPrefix is what protojson puts before its texts, with a space or a
// no-break space, plus a position that raw JSON may have moved.
var protoPrefix = regexp.MustCompile(`^proto:[\s\x{a0}]*(\(line \d+:\d+\):\s*)?`)

// quoted is what protojson quotes.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// withoutValues is a text of protojson up to the value that it repeats, with those
// of the quoted names that may be repeated.
func withoutValues(text string) string {
	text, _, _ = strings.Cut(text, ": ")
	return quoted.ReplaceAllStringFunc(text, func(name string) string { return screen.Quote(strings.Trim(name, `"`)) })
}

func checkObject(data []byte) error {
	if jsoncheck.TooDeep(data) {
		return errors.New("body: " + jsoncheck.RuleDepth)
	}
	if !jsoncheck.Valid(data) {
		var syntax *json.SyntaxError
		if err := json.Unmarshal(data, new(any)); errors.As(err, &syntax) {
			return fmt.Errorf("body: invalid JSON at byte %d: %s", syntax.Offset, syntax.Error())
		}
		return errors.New("body: invalid JSON")
	}
	if !gjson.ParseBytes(data).IsObject() {
		return errors.New("body: must be a JSON object")
	}
	return nil
}

// NewDecoder reads one message from a body that the caller has bounded.
func (c *codec) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return fmt.Errorf("read body: %w", err)
		}
		if len(bytes.TrimSpace(data)) == 0 {
			return io.EOF
		}
		return c.Unmarshal(data, v)
	})
}

// NewEncoder writes one message.
func (c *codec) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		data, err := c.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
}

// holdsRaw reports whether a message, or one inside it, has a marked field: raw JSON
// or a null for what is absent. Only whole answers are kept: another call may be
// asking at the same time.
func (c *codec) holdsRaw(desc protoreflect.MessageDescriptor) bool {
	if known, ok := c.raw.Load(desc.FullName()); ok {
		return known == true
	}
	found := c.findRaw(desc, make(map[protoreflect.FullName]bool))
	c.raw.Store(desc.FullName(), found)
	return found
}

func (c *codec) findRaw(desc protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[desc.FullName()] {
		return false
	}
	seen[desc.FullName()] = true
	for i := range desc.Fields().Len() {
		field := desc.Fields().Get(i)
		if c.isRaw(field) || c.isNull(field) || (field.Message() != nil && !field.IsMap() && c.findRaw(field.Message(), seen)) {
			return true
		}
	}
	return false
}

func (c *codec) isRaw(field protoreflect.FieldDescriptor) bool {
	return field.Kind() == protoreflect.BytesKind && proto.HasExtension(field.Options(), c.rawJSON)
}

// isNull reports whether a field is written as null where it is absent.
func (c *codec) isNull(field protoreflect.FieldDescriptor) bool {
	return c.nullJSON != nil && field.HasOptionalKeyword() && proto.HasExtension(field.Options(), c.nullJSON)
}

// direction is what rewrite does to a message's JSON.
type direction struct {
	raw   func(dst []byte, value gjson.Result) []byte
	nulls bool
}

var (
	reading = direction{raw: enclose}
	writing = direction{raw: inline, nulls: true}
)

// enclose turns JSON text into the base64 string that protojson reads into a
// bytes field; null stays null.
func enclose(dst []byte, value gjson.Result) []byte {
	if value.Type == gjson.Null {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, []byte(value.Raw))
	return append(dst, '"')
}

// inline turns the base64 string that protojson wrote into the JSON text it
// holds; no text is null.
func inline(dst []byte, value gjson.Result) []byte {
	text, err := base64.StdEncoding.DecodeString(value.Str)
	if err != nil || len(text) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, text...)
}

// rewrite copies a JSON object of a message's shape, with the values of its raw_json
// fields changed and, in writing, the nulls of its null_json fields, at any depth.
func (c *codec) rewrite(dst, object []byte, desc protoreflect.MessageDescriptor, change direction) []byte {
	dst = append(dst, '{')
	var there []string
	first := true
	gjson.ParseBytes(object).ForEach(func(key, value gjson.Result) bool {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(dst, key.Raw...), ':')
		there = append(there, key.Str)
		field := desc.Fields().ByTextName(key.Str)
		if field == nil {
			field = desc.Fields().ByJSONName(key.Str)
		}
		dst = c.rewriteField(dst, value, field, change)
		return true
	})
	for i := range desc.Fields().Len() {
		field := desc.Fields().Get(i)
		if !change.nulls || !c.isNull(field) || slices.Contains(there, field.TextName()) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(strconv.AppendQuote(dst, field.TextName()), ":null"...)
	}
	return append(dst, '}')
}

func (c *codec) rewriteField(dst []byte, value gjson.Result, field protoreflect.FieldDescriptor, change direction) []byte {
	var element func(dst []byte, value gjson.Result) []byte
	switch {
	case field == nil || field.IsMap():
	case c.isRaw(field):
		element = change.raw
	case field.Message() != nil && c.holdsRaw(field.Message()):
		element = func(dst []byte, value gjson.Result) []byte {
			if !value.IsObject() {
				return append(dst, value.Raw...)
			}
			return c.rewrite(dst, []byte(value.Raw), field.Message(), change)
		}
	}
	if element == nil {
		return append(dst, value.Raw...)
	}
	if !field.IsList() || !value.IsArray() {
		return element(dst, value)
	}
	dst = append(dst, '[')
	begun := len(dst)
	value.ForEach(func(_, item gjson.Result) bool {
		if len(dst) > begun {
			dst = append(dst, ',')
		}
		dst = element(dst, item)
		return true
	})
	return append(dst, ']')
}
