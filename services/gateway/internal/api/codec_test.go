package api_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	_ "switchyard.dev/gen/go/switchyard/notify/v1"
	_ "switchyard.dev/gen/go/switchyard/webhooks/v1"
)

// contracts returns the messages of all services: this module sees the contract and the codec, platform only the codec.
func contracts() (types []protoreflect.MessageType) {
	protoregistry.GlobalTypes.RangeMessages(func(t protoreflect.MessageType) bool {
		name := string(t.Descriptor().FullName())
		if strings.HasPrefix(name, "switchyard.") && !t.Descriptor().IsMapEntry() {
			types = append(types, t)
		}
		return true
	})
	return types
}

// firstName matches the beginning of an object's first name.
var firstName = regexp.MustCompile(`^[ \t\r\n]*\{[ \t\r\n]*"[a-z]`)

// readBoth decodes a body as it is and with the first letter of a name written as an escape, which the fast path leaves
// to the full decoder. Both must agree. It reports whether the body can be decoded.
func readBoth(tb testing.TB, decode func(*http.Request, proto.Message) error, kind protoreflect.MessageType, body string) bool {
	tb.Helper()
	read := func(body string) (proto.Message, string) {
		m := kind.New().Interface()
		if err := decode(httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), m); err != nil {
			return m, err.Error()
		}
		return m, ""
	}
	end := len(firstName.FindString(body))
	if end == 0 {
		return false
	}
	m, broken := read(body)
	standard, want := read(body[:end-1] + fmt.Sprintf(`\u%04x`, body[end-1]) + body[end:])
	if position.ReplaceAllString(broken, "") != position.ReplaceAllString(want, "") {
		tb.Errorf("%s of %s: %q, by protojson %q", body, kind.Descriptor().FullName(), broken, want)
	}
	if broken == "" && !proto.Equal(m, standard) {
		tb.Errorf("%s of %s:\n%v\n%v", body, kind.Descriptor().FullName(), m, standard)
	}
	return broken == ""
}

// position matches what the escape moves.
var position = regexp.MustCompile(`(byte |line \d+:)\d+`)

// TestFastAgrees generates valid and invalid bodies of every message of the contracts.
func TestFastAgrees(t *testing.T) {
	decode := decoder(t)
	good, bad := 0, 0
	for _, kind := range contracts() {
		for seed := range uint64(60) {
			w := writer{Rand: rand.New(rand.NewPCG(seed, 0)), wild: seed % 3}
			if readBoth(t, decode, kind, w.object(kind.Descriptor(), 3)) {
				good++
			} else {
				bad++
			}
		}
	}
	if good < 1000 || bad < 1000 {
		t.Errorf("%d bodies could be read, %d not: the bodies prove little", good, bad)
	}
}

// Every message of the contracts is a struct of the open API: each field, but the choices of a oneof, has an exported
// place whose json tag begins with the field's name, and a pointer holds what has presence. package rpc reads bodies into
// these places (fast.go). If protoc-gen-go moves to the opaque API, bodies are left to protojson, with the same results
// at four times the cost; fast.go is then to be removed or rewritten by protobuf's reflection.
func TestMessagesAreOfTheOpenAPI(t *testing.T) {
	for _, kind := range contracts() {
		desc, layout := kind.Descriptor(), reflect.TypeOf(kind.New().Interface()).Elem()
		if layout.Kind() != reflect.Struct {
			t.Errorf("%s: generated as %s", desc.FullName(), layout.Kind())
			continue
		}
		places := make(map[string]reflect.StructField)
		for place := range layout.Fields() {
			if name, _, _ := strings.Cut(place.Tag.Get("json"), ","); name != "" && place.IsExported() {
				places[name] = place
			}
		}
		for i := range desc.Fields().Len() {
			field := desc.Fields().Get(i)
			if choice := field.ContainingOneof(); choice != nil && !choice.IsSynthetic() {
				continue
			}
			place, ok := places[string(field.Name())]
			if !ok {
				t.Errorf("%s: no exported field", field.FullName())
				continue
			}
			nilable := place.Type.Kind() == reflect.Pointer || place.Type == reflect.TypeFor[[]byte]()
			if field.HasPresence() && !nilable {
				t.Errorf("%s has presence, but is a %s", field.FullName(), place.Type)
			}
		}
	}
}

func FuzzFastAgrees(f *testing.F) {
	kinds, decode := contracts(), decoder(f)
	for i, kind := range kinds {
		w := writer{Rand: rand.New(rand.NewPCG(uint64(i), 0))}
		f.Add(uint16(i), w.object(kind.Descriptor(), 3))
	}
	f.Fuzz(func(t *testing.T, kind uint16, body string) { readBoth(t, decode, kinds[int(kind)%len(kinds)], body) })
}

// The fast path is used: the full decoder allocates far more.
func TestFastIsTaken(t *testing.T) {
	decode := decoder(t)
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	garbage := func(body string) float64 {
		return testing.AllocsPerRun(100, func() {
			r.Body = http.NoBody
			if body != "" {
				r.Body = httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)).Body
			}
			if err := decode(r, new(gatewayv1.LlmRequest)); err != nil {
				t.Fatal(err)
			}
		})
	}
	if fast, standard := garbage(everyField), garbage(strings.Replace(everyField, `{"o`, `{"\u006f`, 1)); fast > standard/2 {
		t.Errorf("%v allocations, by protojson %v", fast, standard)
	}
}

// writer writes JSON of a message; the wilder, the more errors.
type writer struct {
	*rand.Rand

	wild uint64
}

func (w writer) pick(of ...string) string { return of[w.IntN(len(of))] }

// odd is true now and then.
func (w writer) odd() bool { return w.wild > 0 && w.IntN(12) == 0 }

func (w writer) space() string { return w.pick("", "", "", " ", "\n\t") }

func (w writer) object(desc protoreflect.MessageDescriptor, depth int) string {
	var members []string
	for i := range desc.Fields().Len() {
		field := desc.Fields().Get(i)
		if w.IntN(2) == 0 || depth == 0 && field.Message() != nil {
			continue
		}
		name := string(field.Name())
		if w.odd() {
			name = w.pick(field.JSONName(), name+"x", "", name, "\u00e9")
		}
		members = append(members, w.space()+strconv.Quote(name)+w.space()+":"+w.space()+w.field(field, depth))
		if w.odd() {
			members = append(members, members[w.IntN(len(members))])
		}
	}
	return "{" + strings.Join(members, ",") + w.space() + "}" + w.space()
}

func (w writer) field(field protoreflect.FieldDescriptor, depth int) string {
	if w.odd() {
		return w.pick("null", "nul", "[]", "{}", "[null]", "{\"a\":null}", "tru", `"`, `"\x"`, "\"\n\"", "1.", "-", "01", "[1,]", "{,}")
	}
	one := func() string {
		if field.IsMap() {
			field = field.MapValue()
		}
		return w.space() + w.value(field, depth) + w.space()
	}
	switch {
	case field.IsMap():
		return "{" + w.space() + `"k":` + one() + "," + w.pick(`"l"`, `"k"`, `"\u006b"`, `"m"`) + ":" + one() + "}"
	case field.IsList():
		return "[" + strings.Join([]string{one(), one(), one()}[:w.IntN(3)+1], ",") + "]"
	}
	return w.value(field, depth)
}

func (w writer) value(field protoreflect.FieldDescriptor, depth int) string {
	text := w.pick(`""`, `"a"`, `"\u00e9é\n"`, `"\ud83d\ude00"`, `"a longer text, without anything in it"`, `"http:\/\/x"`)
	number := w.pick("0", "1", "-1", "7", "300", "2147483647", "4294967295")
	if w.odd() {
		text = w.pick(`"\ud800"`, `"\u12"`, `"\u+123"`, "\"a\tb\"", `"\u0000"`, `"0123456\"78"`, "\"\xff\"")
		number = w.pick("-0", "1.0", "1e2", "1E+2", "0.5", "1e999", "2147483648", "-2147483649", `"5"`, `"NaN"`)
	}
	switch field.Kind() {
	case protoreflect.StringKind:
		return text
	case protoreflect.BoolKind:
		return w.pick("true", "false")
	case protoreflect.BytesKind:
		return w.pick(text, number, "true", `{"a" : [1, {}, null], "a": "b\/"}`, `[[], "\ud800", -1.5e-3]`)
	case protoreflect.MessageKind:
		if field.Message().FullName() == "google.protobuf.Timestamp" {
			return w.pick(`"2026-11-21T10:00:00Z"`, `"2026-11-21T10:00:00.5+01:00"`, `"2026-11-21"`)
		}
		return w.object(field.Message(), depth-1)
	default:
		return number
	}
}
