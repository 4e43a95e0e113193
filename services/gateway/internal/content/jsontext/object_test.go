package jsontext

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// AppendText keeps the text, with any character at any position.
func TestAppendText(t *testing.T) {
	for c := range rune(0x100) {
		for at := range 20 {
			text := strings.Repeat("a", at) + string(c) + strings.Repeat("z", 19-at)
			read(t, AppendText(nil, text), text)
			if isPlain := c >= ' ' && c < 0x80 && c != '"' && c != '\\'; plain(text) != isPlain {
				t.Fatalf("plain(%q) = %t", text, !isPlain)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		read(t, AppendText(nil, text), strings.ToValidUTF8(text, "\uFFFD"))
	})
	read(t, AppendText([]byte(nil), "a\xffb\xc3"), "a\uFFFDb\uFFFD")
}

func read(t rapid.TB, quoted []byte, want string) {
	var got string
	t.Helper()
	if err := json.Unmarshal(quoted, &got); err != nil || got != want {
		t.Fatalf("%s is %q, %v; want %q", quoted, got, err, want)
	}
}

func TestObject(t *testing.T) {
	o := Begin([]byte("before "))
	o.Text("text", `a "b"`)
	o.TextNonEmpty("no_text", "")
	o.Int("int", -7)
	o.IntNonZero("no_int", 0)
	o.Float("float", 0.0000001)
	o.Bool("bool", false)
	o.BoolIfTrue("no_bool", false)
	o.Time("at", time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC))
	o.Value("rare", []string{"<b>"})
	o.Null("null")
	o.Name("raw")
	o.Out = append(o.Out, "[1,2]"...)
	const want = `before {"text":"a \"b\"","int":-7,"float":0.0000001,"bool":false,"at":"2026-01-02T03:04:05.0000006Z","rare":["<b>"],"null":null,"raw":[1,2]}`
	if got := string(o.End()); got != want || o.Err != nil {
		t.Errorf("got %s, err %v", got, o.Err)
	}
	empty := Begin(nil)
	if got := string(empty.End()); got != "{}" {
		t.Errorf("empty: %s", got)
	}
}

// The error names the first member that JSON can't represent.
func TestObjectFails(t *testing.T) {
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		o := Begin(nil)
		o.Float("good", 1)
		o.Float("temperature", value)
		o.Value("later", func() {})
		if o.Err == nil || !strings.HasPrefix(o.Err.Error(), "temperature: ") {
			t.Errorf("%v: err %v", value, o.Err)
		}
	}
	o := Begin(nil)
	o.Value("odd", json.RawMessage("{"))
	if _, syntax := errors.AsType[*json.MarshalerError](o.Err); !syntax {
		t.Errorf("err %v", o.Err)
	}
}
