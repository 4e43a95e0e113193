package rpc

import (
	"fmt"
	"strconv"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/bodymemory"
	"switchyard.dev/services/platform/jsoncheck"
)

// maxItems is how many messages and list items a message on the gRPC face may hold, the same number as arrays and
// objects in a JSON body. Two bytes of an empty message take more than a hundred bytes in memory.
const maxItems = jsoncheck.MaxContainers

// The rules of a message as a whole. Errors name it as the field messageField.
const (
	messageField = "message"
	ruleItems    = "must not hold more than 262144 messages and list items"
	ruleWire     = "must be the protobuf encoding of the method's request, with strings in UTF-8"
)

// wireCodec is the protobuf codec of the gRPC face, with limits.
type wireCodec struct {
	encoding.CodecV2

	json *codec
}

func newWireCodec(json *codec) wireCodec {
	return wireCodec{encoding.GetCodecV2(protocodec.Name), json}
}

// received is a message being received. gRPC turns any error of a codec into an internal error, so the codec stores its
// error here.
type received struct {
	into any
	body *bodymemory.Hold
	err  error
}

// Unmarshal reads a message. The contract's methods pass a *received.
func (c wireCodec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*received)
	if !ok {
		return c.read(data, v)
	}
	if r.err = r.body.Grow(int64(data.Len())); r.err == nil {
		r.err = c.read(data, r.into)
	}
	return nil
}

func (c wireCodec) read(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("read %T: not a protobuf message", v)
	}
	text := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer text.Free()
	return c.decode(text.ReadOnlyData(), m)
}

// decode reads a message. The items of a long message are counted before it is decoded; an item takes at least one
// byte, so a short one can't hold too many.
func (c wireCodec) decode(text []byte, m proto.Message) error {
	desc := m.ProtoReflect().Descriptor()
	if len(text) > maxItems {
		if err := checkWire(text, desc); err != nil {
			return err
		}
	}
	if err := (proto.UnmarshalOptions{RecursionLimit: jsoncheck.MaxDepth}).Unmarshal(text, m); err != nil {
		if refused := checkWire(text, desc); refused != nil {
			return refused
		}
		return apierr.Invalid(messageField, ruleWire)
	}
	if jsoncheck.Opened(text) <= jsoncheck.MaxDepth || !c.json.holdsRaw(desc) {
		return nil // True for almost all requests.
	}
	check := rawCheck{codec: c.json}
	if path, rule := check.message(m.ProtoReflect()); rule != "" {
		return apierr.Invalid(path, rule)
	}
	return nil
}

// checkWire applies the rules of a whole message to its bytes. It allocates no memory.
func checkWire(text []byte, desc protoreflect.MessageDescriptor) error {
	var w wireCheck
	if rule := w.message(text, desc, 1); rule != "" {
		return apierr.Invalid(messageField, rule)
	}
	return nil
}

// wireCheck counts messages and list items.
type wireCheck struct{ items int }

// message returns the rule that the bytes of a message break, or "".
func (w *wireCheck) message(text []byte, desc protoreflect.MessageDescriptor, depth int) string {
	if depth > jsoncheck.MaxDepth {
		return jsoncheck.RuleDepth
	}
	for len(text) > 0 {
		number, kind, n := protowire.ConsumeTag(text)
		if n < 0 {
			return ruleWire
		}
		text = text[n:]
		if n = protowire.ConsumeFieldValue(number, kind, text); n < 0 {
			return ruleWire
		}
		if rule := w.field(text[:n], kind, desc.Fields().ByNumber(number), depth); rule != "" {
			return rule
		}
		text = text[n:]
	}
	return ""
}

// field counts the items in the value of a field. Unknown fields are stored as bytes and not counted.
func (w *wireCheck) field(value []byte, kind protowire.Type, field protoreflect.FieldDescriptor, depth int) string {
	if field == nil || !field.IsList() && field.Message() == nil {
		return ""
	}
	packed := kind == protowire.BytesType
	if packed {
		value, _ = protowire.ConsumeBytes(value)
	}
	switch {
	case !packed || field.Kind() == protoreflect.StringKind || field.Kind() == protoreflect.BytesKind || field.Message() != nil:
		w.items++
	case field.Kind() == protoreflect.DoubleKind || field.Kind() == protoreflect.Fixed64Kind || field.Kind() == protoreflect.Sfixed64Kind:
		w.items += len(value) / 8
	case field.Kind() == protoreflect.FloatKind || field.Kind() == protoreflect.Fixed32Kind || field.Kind() == protoreflect.Sfixed32Kind:
		w.items += len(value) / 4
	default:
		w.items += len(value) // An upper bound; no real request has this many.
	}
	if w.items > maxItems {
		return ruleItems
	}
	if packed && field.Message() != nil {
		return w.message(value, field.Message(), depth+1)
	}
	return ""
}

// rawCheck bounds the raw JSON of a message. JSON callers send it inside a body that is bounded as a whole. The code
// that reads a field checks whether it is JSON.
type rawCheck struct {
	codec      *codec
	containers int
}

// message returns the path of a field that breaks a rule, and the rule.
func (c *rawCheck) message(m protoreflect.Message) (path, rule string) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.IsMap() || !c.codec.isRaw(field) && (field.Message() == nil || !c.codec.holdsRaw(field.Message())) {
			return true
		}
		if !field.IsList() {
			path, rule = c.value(field, value)
			path = joined(string(field.Name()), path)
			return rule == ""
		}
		for i := 0; i < value.List().Len() && rule == ""; i++ {
			if path, rule = c.value(field, value.List().Get(i)); rule != "" {
				path = joined(string(field.Name())+"["+strconv.Itoa(i)+"]", path)
			}
		}
		return rule == ""
	})
	return path, rule
}

func joined(name, path string) string {
	if path == "" {
		return name
	}
	return name + "." + path
}

func (c *rawCheck) value(field protoreflect.FieldDescriptor, value protoreflect.Value) (path, rule string) {
	if field.Message() != nil {
		return c.message(value.Message())
	}
	text := value.Bytes()
	if jsoncheck.TooDeep(text) {
		return "", jsoncheck.RuleDepth
	}
	if c.containers += jsoncheck.Containers(text); c.containers > jsoncheck.MaxContainers {
		return "", jsoncheck.RuleContainers
	}
	return "", ""
}
