package rpc

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// unmarshalFast reads a body directly into an empty generated message, at a small part of protojson's cost, and reports
// whether it did. It accepts only what it reads exactly as protojson would: plain kinds, and names as the contract
// spells them. Any other body, valid or not, is left to unmarshalStandard, so that there is one set of rules and of
// error texts. RawJSON fields share the bytes of data; neither may be changed afterwards.
func (c *codec) unmarshalFast(data []byte, m proto.Message) bool {
	f := c.formOf(m)
	if f == nil || !utf8.Valid(data) {
		return false
	}
	s := scanner{text: data}
	if f.read(&s, reflect.ValueOf(m).Elem()) && s.end() {
		return true
	}
	proto.Reset(m)
	return false
}

// form is how unmarshalFast reads a message: its fields by their names in the contract.
type form struct{ fields []formField }

type formField struct {
	name  string
	index int // of the Go struct's field
	read  readField
}

// readField reads the next value into a field. False leaves the whole body to unmarshalStandard.
type readField func(s *scanner, into reflect.Value) bool

const (
	mostFields = 64 // the bits of read's set of fields seen
	firstItems = 4  // initial capacity of a list
)

func (f *form) read(s *scanner, into reflect.Value) bool {
	var seen uint64
	return s.members(func(name []byte) bool {
		i := slices.IndexFunc(f.fields, func(field formField) bool { return field.name == string(name) })
		if i < 0 || seen&(1<<i) != 0 {
			return false
		}
		seen |= 1 << i
		return s.take("null") || f.fields[i].read(s, into.Field(f.fields[i].index))
	})
}

// formOf returns the form of a message, or nil if the message holds, at any depth, a field that unmarshalFast can't
// read.
func (c *codec) formOf(m proto.Message) *form {
	of := reflect.TypeOf(m).Elem()
	if known, ok := c.forms.Load(of); ok {
		return known.(*form) //nolint:errcheck,forcetypeassert // The map holds nothing else.
	}
	f := c.makeForm(m.ProtoReflect().Descriptor(), of, make(map[reflect.Type]*form))
	c.forms.Store(of, f)
	return f
}

// makeForm makes the form of a message and of the messages in it. made holds the forms begun so far, because messages
// may hold each other.
func (c *codec) makeForm(desc protoreflect.MessageDescriptor, of reflect.Type, made map[reflect.Type]*form) *form {
	if f, ok := made[of]; ok {
		return f
	}
	// Messages of google.protobuf have a special JSON form.
	if desc.ParentFile().Package() == "google.protobuf" || desc.Fields().Len() > mostFields || of.Kind() != reflect.Struct {
		return nil
	}
	f := new(form)
	made[of] = f
	for place := range of.Fields() {
		name, _, _ := strings.Cut(place.Tag.Get("json"), ",")
		field := desc.Fields().ByName(protoreflect.Name(name))
		if field == nil || !place.IsExported() || isHidden(field) {
			continue // The message's internal state, a field of the opaque API, or one of the gRPC face.
		}
		read := c.reader(field, place.Type, made)
		if read == nil {
			return nil
		}
		f.fields = append(f.fields, formField{name, place.Index[0], read})
	}
	if len(f.fields) < shown(desc) {
		return nil // The fields of a oneof have no struct field of their own.
	}
	return f
}

// shown returns how many fields of a message the JSON face has.
func shown(desc protoreflect.MessageDescriptor) (n int) {
	for i := range desc.Fields().Len() {
		if !isHidden(desc.Fields().Get(i)) {
			n++
		}
	}
	return n
}

// reader returns nil for a field that unmarshalFast can't read. of is the field's Go type, or the element type of a
// pointer or list.
func (c *codec) reader(field protoreflect.FieldDescriptor, of reflect.Type, made map[reflect.Type]*form) readField {
	if read, known := readers[of]; known && (field.Kind() != protoreflect.BytesKind || c.isRaw(field)) {
		return read
	}
	switch of.Kind() {
	case reflect.Struct:
		if f := c.makeForm(field.Message(), of, made); f != nil {
			return f.read
		}
	case reflect.Pointer:
		if read := c.reader(field, of.Elem(), made); read != nil {
			return pointer(read)
		}
	case reflect.Slice:
		if read := c.reader(field, of.Elem(), made); read != nil {
			return list(read)
		}
	default:
	}
	return nil
}

func pointer(read readField) readField {
	return func(s *scanner, into reflect.Value) bool {
		into.Set(reflect.New(into.Type().Elem()))
		return read(s, into.Elem())
	}
}

func list(read readField) readField {
	return func(s *scanner, into reflect.Value) bool {
		return s.items("[", "]", func() bool {
			n := into.Len()
			if n == into.Cap() {
				into.Grow(firstItems)
			}
			into.SetLen(n + 1)
			return read(s, into.Index(n))
		})
	}
}

// readers holds the readers of Go types that hold no message of the contract.
var readers = map[reflect.Type]readField{
	reflect.TypeFor[string](): func(s *scanner, into reflect.Value) bool {
		text, ok := s.string()
		into.SetString(text)
		return ok
	},
	reflect.TypeFor[[]byte](): func(s *scanner, into reflect.Value) bool {
		text, ok := s.raw()
		into.SetBytes(text)
		return ok
	},
	reflect.TypeFor[bool](): func(s *scanner, into reflect.Value) bool {
		into.SetBool(s.peek() == 't')
		return s.take("true") || s.take("false")
	},
	reflect.TypeFor[int32](): func(s *scanner, into reflect.Value) bool {
		text, ok := s.number()
		n, err := strconv.ParseInt(string(text), 10, 32) // protojson reads 1.0 and 1e3.
		into.SetInt(n)
		return ok && err == nil
	},
	reflect.TypeFor[float64](): func(s *scanner, into reflect.Value) bool {
		text, ok := s.number()
		n, err := strconv.ParseFloat(string(text), 64)
		into.SetFloat(n)
		return ok && err == nil
	},
	reflect.TypeFor[map[string]string](): func(s *scanner, into reflect.Value) bool {
		made := make(map[string]string)
		into.Set(reflect.ValueOf(made))
		return s.items("{", "}", func() bool {
			name, ok := s.string()
			if _, twice := made[name]; !ok || twice || !s.take(":") {
				return false
			}
			made[name], ok = s.string()
			return ok
		})
	},
	reflect.TypeFor[timestamppb.Timestamp](): func(s *scanner, into reflect.Value) bool {
		text, ok := s.raw()
		at, is := reflect.TypeAssert[proto.Message](into.Addr())
		return ok && is && protojson.Unmarshal(text, at) == nil
	},
}
