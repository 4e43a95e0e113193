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
	"switchyard.dev/services/platform/jsoncheck"
)

// maxItems is how many messages and list items a message of the gRPC face may hold,
// as many as a JSON body may hold arrays and objects. Two bytes that hold none
// become a hundred and more in memory.
const maxItems = jsoncheck.MaxContainers

// The rules of a message as a whole. Its field in errors is messageField.
const (
	messageField = "message"
	ruleItems    = "must not hold more than 262144 messages and list items"
	ruleWire     = "must be the protobuf encoding of the method's request, with strings in UTF-8"
)

// wireCodec is the protobuf of the gRPC face, within bounds.
type wireCodec struct {
	encoding.CodecV2

	json *codec
}

func newWireCodec(json *codec) wireCodec {
	return wireCodec{encoding.GetCodecV2(protocodec.Name), json}
}

// received is a message that is being received. gRPC would make any error of a codec
// an internal one, so that the codec leaves its error here.
type received struct {
	into any
	err  error
}

// Unmarshal reads a message. A method of the contract hands in received.
func (c wireCodec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*received)
	if !ok {
		return c.read(data, v)
	}
	r.err = c.read(data, r.into)
	return nil
}

func (c wireCodec) read(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("read %T: no message", v)
	}
	text := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer text.Free()
	return c.decode(text.ReadOnlyData(), m)
}

// decode reads a message whose items are counted before anything is made of them.
// One item takes a byte at least: short messages need no count.
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
		return nil // So it is with nearly all requests.
	}
	check := rawCheck{codec: c.json}
	if path, rule := check.message(m.ProtoReflect()); rule != "" {
		return apierr.Invalid(path, rule)
	}
	return nil
}

// checkWire applies the rules of a message as a whole to its bytes. It takes no memory.
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

// field counts what the value of a field holds. Values of unknown fields are kept as
// they are.
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
		w.items += len(value) // At most; no request has so many.
	}
	if w.items > maxItems {
		return ruleItems
	}
	if packed && field.Message() != nil {
		return w.message(value, field.Message(), depth+1)
	}
	return ""
}

// rawCheck bounds the raw JSON of a message, which JSON callers send within a body
// that is bounded as a whole. Whether it is JSON is for who reads it.
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
