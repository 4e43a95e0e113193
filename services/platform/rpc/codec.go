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
	"google.golang.org/genproto/googleapis/api/visibility"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/screen"
)

// codec is the JSON of the HTTP face. Names are in snake_case, every field is present, unknown fields are refused, and
// bytes fields marked with the rawJSON option hold the exact JSON text that was received. Fields with a visibility of
// google.api are for the gRPC face only: their names are unknown here.
type codec struct {
	rawJSON protoreflect.ExtensionType
	// nullJSON marks optional fields that are null when they are absent; nil if there is no such option.
	nullJSON protoreflect.ExtensionType
	raw      sync.Map // protoreflect.FullName to bool: whether the message holds marked fields
	forms    sync.Map // reflect.Type to *form: how unmarshalFast reads the message, nil if it can't
}

func newCodec(rawJSON, nullJSON protoreflect.ExtensionType) *codec {
	return &codec{rawJSON: rawJSON, nullJSON: nullJSON}
}

// ContentType returns the media type of every response.
func (c *codec) ContentType(any) string { return "application/json" }

// Marshal returns the JSON of a message without spaces: protojson deliberately varies its spacing between builds.
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

// Unmarshal reads a message. An error names the field or the byte offset.
func (c *codec) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return json.Unmarshal(data, v)
	}
	if c.unmarshalFast(data, m) {
		return nil
	}
	return c.unmarshalStandard(data, m)
}

// unmarshalStandard reads a message with protojson. It defines the rules and the error texts; see unmarshalFast.
func (c *codec) unmarshalStandard(data []byte, m proto.Message) error {
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

// protoPrefix matches the prefix of protojson's error texts: "proto:" with a space or a no-break space, and a position,
// which is wrong once raw JSON has been replaced.
var protoPrefix = regexp.MustCompile(`^proto:[\s\x{a0}]*(\(line \d+:\d+\):\s*)?`)

// quoted matches what protojson quotes.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// withoutValues cuts an error text of protojson before the value that it repeats, and hides the quoted names that must
// not be repeated.
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

// NewDecoder returns a Decoder of one message, whose body the caller has bounded.
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

// NewEncoder returns an Encoder of one message.
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

// holdsRaw reports whether a message, or one inside it, has a field that rewrite changes. Only the result of a
// complete search is cached: within a recursive message the partial result would be wrong for a concurrent call.
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
		if c.isRaw(field) || c.isNull(field) || isHidden(field) || (field.Message() != nil && !field.IsMap() && c.findRaw(field.Message(), seen)) {
			return true
		}
	}
	return false
}

func (c *codec) isRaw(field protoreflect.FieldDescriptor) bool {
	return field.Kind() == protoreflect.BytesKind && proto.HasExtension(field.Options(), c.rawJSON)
}

// isNull reports whether a field is written as null when it is absent.
func (c *codec) isNull(field protoreflect.FieldDescriptor) bool {
	return c.nullJSON != nil && field.HasOptionalKeyword() && proto.HasExtension(field.Options(), c.nullJSON)
}

// isHidden reports whether a field is for the gRPC face only.
func isHidden(field protoreflect.FieldDescriptor) bool {
	return proto.HasExtension(field.Options(), visibility.E_FieldVisibility)
}

// direction is how rewrite changes a message's JSON.
type direction struct {
	raw   func(dst []byte, value gjson.Result) []byte
	nulls bool
}

var (
	reading = direction{raw: enclose}
	writing = direction{raw: inline, nulls: true}
)

// enclose turns JSON text into the base64 string that protojson reads into a bytes field. A null stays null.
func enclose(dst []byte, value gjson.Result) []byte {
	if value.Type == gjson.Null {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, []byte(value.Raw))
	return append(dst, '"')
}

// inline turns the base64 string that protojson wrote back into the JSON text it holds. An empty string becomes null.
func inline(dst []byte, value gjson.Result) []byte {
	text, err := base64.StdEncoding.DecodeString(value.Str)
	if err != nil || len(text) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, text...)
}

// rewrite copies the JSON object of a message and changes the values of its rawJSON fields at any depth. When writing,
// it also adds the nulls of absent nullJSON fields; when reading, it takes the names of hidden fields away, so that
// protojson refuses them.
func (c *codec) rewrite(dst, object []byte, desc protoreflect.MessageDescriptor, change direction) []byte {
	dst = append(dst, '{')
	var there []string
	first := true
	gjson.ParseBytes(object).ForEach(func(key, value gjson.Result) bool {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		there = append(there, key.Str)
		field := fieldOf(desc, key.Str)
		if field == nil && !change.nulls {
			key.Raw = unknownName
		}
		dst = append(append(dst, key.Raw...), ':')
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

// fieldOf returns the field of a name on the JSON face, or nil if there is none.
func fieldOf(desc protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	field := desc.Fields().ByTextName(name)
	if field == nil {
		field = desc.Fields().ByJSONName(name)
	}
	if field == nil || isHidden(field) {
		return nil
	}
	return field
}

// unknownName is a name in JSON that no field has.
const unknownName = `"-"`

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
