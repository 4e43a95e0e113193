package jsontext_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/content/jsontext"
)

func TestRewrite(t *testing.T) {
	upper := jsontext.Change{
		String: func(text string) (string, bool) { return strings.ToUpper(text), text != "keep" },
		Number: func(digits string) (string, bool) { return "n" + digits, digits != "1" },
	}
	for in, want := range map[string]string{
		`{"a" : "b\n<\"é", "keep":[1, -2.5e3,true,null]}`: `{"A" : "B\n<\"É", "keep":[1, "n-2.5e3",true,null]}`,
		`"\ud83d\ude00\\"`: `"😀\\"`, `[]`: `[]`, `""`: `""`,
	} {
		if got := string(jsontext.Rewrite([]byte(in), upper)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// A member's value is replaced whole, unless it is true, false or null, or changed as its own Change says. What follows
// it is changed as before.
func TestRewriteMembers(t *testing.T) {
	stars := &jsontext.Change{
		String: func(string) (string, bool) { return "*", true },
		Number: func(string) (string, bool) { return "#", true },
	}
	change := jsontext.Change{
		String: func(text string) (string, bool) { return strings.ToUpper(text), true },
		Member: func(name string) (string, *jsontext.Change) {
			switch name {
			case "hide":
				return "***", nil
			case "stars":
				return "", stars
			}
			return "", nil
		},
	}
	for in, want := range map[string]string{
		`{"hide" : "a", "b":"c"}`:                         `{"HIDE" : "***", "B":"C"}`,
		`[{"hide":["a",1,["b\"]"]]},"c"]`:                 `[{"HIDE":"***"},"C"]`,
		`{"hide":{"a":"}"},"c":"hide"}`:                   `{"HIDE":"***","C":"HIDE"}`,
		`{"\u0068ide": -1.5e3 ,"a":2}`:                    `{"HIDE": "***" ,"A":2}`,
		`{"hide":[{"a":"b"},"c"],"hide":"\n"}`:            `{"HIDE":"***","HIDE":"***"}`,
		`[{"hide":null},"a",{"hide":true},[false]]`:       `[{"HIDE":null},"A",{"HIDE":true},[false]]`,
		`{"stars":{"a":["b",1,{"c":2}],"hide":3},"d":4}`:  `{"STARS":{"A":["*","#",{"C":"#"}],"HIDE":"#"},"D":4}`,
		`{"stars":["a",["b"],{"c":[null]}, "d"],"e":"f"}`: `{"STARS":["*",["*"],{"C":[null]}, "*"],"E":"F"}`,
		`[{"stars":{}},{"stars":[]},"a",{"hide":{}},"b"]`: `[{"STARS":{}},{"STARS":[]},"A",{"HIDE":"***"},"B"]`,
	} {
		if got := string(jsontext.Rewrite([]byte(in), change)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// Text without a change stays byte for byte the same, and every change leaves valid JSON.
func FuzzRewrite(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"b\u0000"]}`, `"\ud800"`, ` [ -0.1e+5 ] `, "\"\xff\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if !json.Valid([]byte(in)) {
			return
		}
		same := jsontext.Change{String: func(string) (string, bool) { return "", false }, Number: func(string) (string, bool) { return "", false }}
		if got := string(jsontext.Rewrite([]byte(in), same)); got != in {
			t.Fatalf("%q became %q", in, got)
		}
		all := jsontext.Change{Member: func(name string) (string, *jsontext.Change) { return strings.Repeat("\x00\"", len(name)%2), nil }, String: func(text string) (string, bool) { return text + "\x00\"\\", true }, Number: func(digits string) (string, bool) { return digits, true }}
		if got := jsontext.Rewrite([]byte(in), all); !json.Valid(got) {
			t.Fatalf("%q became %q", in, got)
		}
	})
}

// Marshal escapes only what JSON requires, and refuses what JSON can't represent.
func TestMarshal(t *testing.T) {
	got, err := jsontext.Marshal([]any{"<a & b>\u2028", 1e-7, json.RawMessage(`{"k":[1]}`)})
	if want := `["<a & b>\u2028",1e-7,{"k":[1]}]`; err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	for _, value := range []any{math.NaN(), math.Inf(1), json.RawMessage("{")} {
		if got, err := jsontext.Marshal(value); err == nil {
			t.Errorf("%v: %s, want an error", value, got)
		}
	}
}

// AppendText keeps the text with any character at any position.
func TestAppendText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"a\xffb\xc3", "\x00\x1f\x7f\"\\"})).Draw(t, "text")
		var got string
		if err := json.Unmarshal(jsontext.AppendText(nil, text), &got); err != nil || got != strings.ToValidUTF8(text, "\uFFFD") {
			t.Fatalf("%q, %v, want %q", got, err, text)
		}
	})
}
