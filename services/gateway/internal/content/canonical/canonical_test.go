package canonical_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"switchyard.dev/services/gateway/internal/content/canonical"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestValue(t *testing.T) {
	for text, want := range map[string]string{
		` { "b" : 1 , "a" : [ true , null ] } `: `{"a":[true,null],"b":1}`,
		`"x"`:                                   `"x"`,
		" false\n":                              `false`,
		`[]`:                                    `[]`,
		`{"a":{"c":1,"b":{}}}`:                  `{"a":{"b":{},"c":1}}`,
		// Appendix B of RFC 8785: numbers.
		`[0,-0,-0.0,0e9]`: `[0,0,0,0]`,
		`[5e-324,-5e-324,1.0,4.50,2e-3,1e-27,0.000001,1e-7]`:     `[5e-324,-5e-324,1,4.5,0.002,1e-27,0.000001,1e-7]`,
		`[9007199254740991,-9007199254740991,333333333.3333333]`: `[9007199254740991,-9007199254740991,333333333.3333333]`,
		`[1E2,1e+2,100,10.0e1,1000e-1,100.000]`:                  `[100,100,100,100,100,100]`,
		`[0e99999999999999999999]`:                               `[0]`,
		`[2.2250738585072014e-308]`:                              `[2.2250738585072014e-308]`,
		// Section 3.2.2.2: texts have the fewest escapes.
		`"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"`: "\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"",
		`"\b\t\n\f\r\u007f\u2028<>&"`:                     "\"\\b\\t\\n\\f\\r\u007f\u2028<>&\"",
		`"\ud83d\ude00"`:                                  "\"😀\"",
		`"` + "\ufffd" + `"`:                              "\"\ufffd\"",
		// Section 3.2.3: the order of names is that of their UTF-16 code units.
		`{"\ufb33":1,"\ud83d\ude00":2,"\u20ac":3,"\u00f6":4,"\u0080":5,"1":6,"\r":7}`: "{\"\\r\":7,\"1\":6,\"\u0080\":5,\"ö\":4,\"€\":3,\"😀\":2,\"\ufb33\":1}",
	} {
		form, err := canonical.Value([]byte(text))
		if err != nil || string(form) != want {
			t.Errorf("%s: %s, %v, want %s", text, form, err, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	deep := strings.Repeat("[", canonical.MaxDepth) + strings.Repeat("]", canonical.MaxDepth)
	if _, err := canonical.Value([]byte(deep)); err != nil {
		t.Errorf("the deepest: %v", err)
	}
	const (
		syntax    = "must be JSON in valid UTF-8, without single surrogates"
		duplicate = "must not hold a name twice"
		beyond    = "must be within ±(2^53-1), or a string"
		inexact   = "must be a number that a double holds with all its digits, or a string"
	)
	for text, want := range map[string]canonical.Error{
		"":                            {Rule: syntax},
		"  ":                          {Rule: syntax},
		"nul":                         {Rule: syntax},
		"{} {}":                       {Rule: "must be one JSON value, with nothing after it"},
		"{}x":                         {Rule: "must be one JSON value, with nothing after it"},
		`{"a":1,}`:                    {Rule: syntax},
		`{"a":[1,2}`:                  {Pointer: "/a", Rule: syntax},
		`{"a":1,"a":2}`:               {Pointer: "/a", Rule: duplicate},
		`{"x":[{"a":1,"\u0061":1}]}`:  {Pointer: "/x/0/a", Rule: duplicate},
		`{"a":"\ud800"}`:              {Pointer: "/a", Rule: syntax},
		`{"a":"\udc00\ud800"}`:        {Pointer: "/a", Rule: syntax},
		"{\"a\":\"\xff\"}":            {Pointer: "/a", Rule: syntax},
		"{\"a\":\"\xed\xa0\x80\"}":    {Pointer: "/a", Rule: syntax},
		`{"a":9007199254740992}`:      {Pointer: "/a", Rule: beyond},
		`{"a":-9007199254740993}`:     {Pointer: "/a", Rule: beyond},
		`{"a":9007199254740993.0}`:    {Pointer: "/a", Rule: beyond},
		`{"a":[0,1e21]}`:              {Pointer: "/a/1", Rule: beyond},
		`{"a":1e400}`:                 {Pointer: "/a", Rule: beyond},
		`{"a":1e-400}`:                {Pointer: "/a", Rule: inexact},
		`{"a":-1e-99999999999999999}`: {Pointer: "/a", Rule: inexact},
		`{"a":0.1000000000000000055}`: {Pointer: "/a", Rule: inexact},
		`{"a":333333333.33333329}`:    {Pointer: "/a", Rule: inexact},
		`{"a":4503599627370496.25}`:   {Pointer: "/a", Rule: inexact},
		`{"a/b~":tru}`:                {Pointer: "/a~1b~0", Rule: syntax},
		"[" + deep + "]":              {Pointer: strings.Repeat("/0", canonical.MaxDepth), Rule: "must not be nested deeper than 64 levels"},
		`{"` + strings.Repeat("é", 200) + `":1e99}`: {Pointer: "/" + strings.Repeat("é", 127) + "…", Rule: beyond},
	} {
		form, err := canonical.Value([]byte(text))
		refusal, ok := errors.AsType[*canonical.Error](err)
		if !ok || *refusal != want || form != nil {
			t.Errorf("%.80s: %s, %v, want %v", text, form, err, &want)
		}
	}
}

func TestObject(t *testing.T) {
	for text, want := range map[string]string{"": "{}", "\t ": "{}", " {}": "{}", `{"b":1,"a":2}`: `{"a":2,"b":1}`, "null": "", "[]": "", `"{}"`: ""} {
		form, err := canonical.Object([]byte(text))
		if string(form) != want || (err != nil) != (want == "") {
			t.Errorf("%q: %s, %v", text, form, err)
		}
	}
}

func TestAsWritten(t *testing.T) {
	for text, want := range map[string]string{
		`{"b":1.0,"a":1}`:                                   `{"a":1,"b":1.0}`,
		`{"maximum":18446744073709551615}`:                  `{"maximum":18446744073709551615}`,
		`[1E5,-0,0.10,"\u0041"]`:                            `[1E5,-0,0.10,"A"]`,
		strings.Repeat("[", 200) + strings.Repeat("]", 200): strings.Repeat("[", 200) + strings.Repeat("]", 200),
	} {
		if form, err := canonical.AsWritten([]byte(text)); err != nil || string(form) != want {
			t.Errorf("%s: %s, %v", text, form, err)
		}
	}
	for _, text := range []string{`{"a":1,"a":1}`, `"\ud800"`, "", strings.Repeat("[", 201) + strings.Repeat("]", 201)} {
		if form, err := canonical.AsWritten([]byte(text)); err == nil {
			t.Errorf("%.20s: %s", text, form)
		}
	}
}

func TestDigest(t *testing.T) {
	a, b := []byte("a"), []byte("b")
	// The SHA-256 of "v1", NUL, "test", NUL, and each part after its length in eight bytes.
	golden := "edf03cbd0baec92a4100e8292849207cb86ec18ba27f1e9c409c155303b4312c"
	if got := canonical.Digest("test", a, []byte("bc")); hex.EncodeToString(got[:]) != golden {
		t.Errorf("%x, want %s: digests that are stored would no longer match", got, golden)
	}
	seen := map[[32]byte]int{}
	for i, digest := range [][32]byte{
		canonical.Digest("x", a, b), canonical.Digest("x", []byte("ab")), canonical.Digest("x", []byte("ab"), nil), canonical.Digest("x"),
		canonical.Digest("x", nil), canonical.Digest("x", b, a), canonical.Digest("y", a, b), canonical.Digest("x", a, append([]byte{0, 0, 0, 0, 0, 0, 0, 1}, 'b')),
	} {
		if other, there := seen[digest]; there {
			t.Errorf("%d and %d have one digest", other, i)
		}
		seen[digest] = i
	}
}

func TestValueGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each(append(growth.JSON, growth.Around(`{"a":[1,{"b":`, growth.ValidJSON, "}]}")...), func(text []byte) {
		_, _ = canonical.Value(text)
		_, _ = canonical.AsWritten(text)
	})...)
	// Objects within objects as deep as they may be, with many members each: reordering must not copy them at each level.
	growth.Linear(t, growth.Each([]growth.Input{
		growth.Number("members of the deepest object", strings.Repeat(`{"z":1,"a":`, canonical.MaxDepth-1)+`{"a":1`, `,"b#":0`, "}"+strings.Repeat("}", canonical.MaxDepth-1)),
	}, func(text []byte) {
		if _, err := canonical.Value(text); err != nil {
			t.Error(err)
		}
	})...)
}

// A form is its own form, equal for equal values, and the one that another implementation of RFC 8785 makes.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{
		`{"b":[1,-0.0,1e-7,{"a":"\u20ac\ud83d\ude00"}],"a":null}`, `{"a":1,"a":2}`, `[9007199254740993,1e400]`, "\"\xff\"", `0.1e1`, `{"\u0000":"\u001f"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		form, err := canonical.Value(text)
		if !bytes.Equal(text, before) {
			t.Fatalf("%q was changed to %q", before, text)
		}
		if err != nil {
			if _, ok := errors.AsType[*canonical.Error](err); !ok {
				t.Fatalf("%q: %T", text, err)
			}
			return
		}
		if again, err := canonical.Value(form); err != nil || !bytes.Equal(again, form) {
			t.Errorf("%q: again %q, %v", form, again, err)
		}
		if other, err := jcs.Transform(text); err != nil || !bytes.Equal(other, form) {
			t.Errorf("%q: %q, another implementation: %q, %v", text, form, other, err)
		}
		var a, b any
		if json.Unmarshal(text, &a) != nil || json.Unmarshal(form, &b) != nil {
			t.Fatalf("%q is not JSON", text)
		}
		written, err := canonical.AsWritten(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if again, err := canonical.Value(written); err != nil || !bytes.Equal(again, form) {
			t.Errorf("%q as written %q: %q, %v", text, written, again, err)
		}
	})
}
