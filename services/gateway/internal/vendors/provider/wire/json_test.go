package wire_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

func TestOverride(t *testing.T) {
	model := wire.Member{Name: "model", Value: `"ours"`}
	for body, want := range map[string]string{
		`{}`:               `{"model":"ours"}`,
		`{"model":"a"}`:    `{"model":"ours"}`,
		`{ "b" : 1.50e3 }`: `{"model":"ours","b":1.50e3}`,
		`{"a":"<&>é\u00e9","model":"x","z":[1, 2]}`: `{"model":"ours","a":"<&>é\u00e9","z":[1, 2]}`,
		`{"model":"a","model":"b","Model":"c"}`:     `{"model":"ours"}`,
		`{"mod\u0065l":"a","b":{"model":"inner"}}`:  `{"model":"ours","b":{"model":"inner"}}`,
	} {
		if got := string(wire.Override([]byte(body), model)); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	got := wire.Override([]byte(`{"stream":false,"n":1}`), model, wire.Member{Name: "stream", Value: "true"})
	if want := `{"model":"ours","stream":true,"n":1}`; string(got) != want {
		t.Errorf("two members: %s, want %s", got, want)
	}
	got = wire.Override([]byte(`{"stream":false,"n":1,"Model":"a"}`), wire.Member{Name: "model"}, wire.Member{Name: "stream"}, wire.Member{Name: "v", Value: "2"})
	if want := `{"v":2,"n":1}`; string(got) != want {
		t.Errorf("removed members: %s, want %s", got, want)
	}
	if got := string(wire.Override([]byte(`{"n": 1}`))); got != `{"n":1}` {
		t.Errorf("no member: %s", got)
	}
}

// For any object, the result has the given members and all the others.
func FuzzOverride(f *testing.F) {
	for _, seed := range []string{`{}`, `{"model":1,"a":{"b":[null,"\""]}}`, `{"a":1,"a":2}`, `{"\u006dodel":"x"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var before map[string]json.RawMessage
		if json.Unmarshal([]byte(body), &before) != nil || before == nil {
			return
		}
		var after map[string]json.RawMessage
		out := wire.Override([]byte(body), wire.Member{Name: "model", Value: `"ours"`})
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		maps.DeleteFunc(before, func(name string, _ json.RawMessage) bool { return strings.EqualFold(name, "model") })
		before["model"] = json.RawMessage(`"ours"`)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	})
}

func TestText(t *testing.T) {
	for raw, want := range map[string]string{
		`"plain"`: "plain", `""`: "", `"a\n\"b\"\\\/\t\r\b\f"`: "a\n\"b\"\\/\t\r\b\f", `"\u00e9é"`: "éé",
		`"\ud83d\ude00"`: "😀", `"\ud83d"`: "\ufffd", `"\ud83dx"`: "\ufffdx", `"\ude00"`: "\ufffd", "\"a\xff\"": "a\ufffd",
		`5`: "", `null`: "", `{"a":"b"}`: "", `"` + strings.Repeat(`\n`, 600) + `"`: strings.Repeat("\n", 600),
	} {
		if got := wire.Text(gjson.Parse(raw)); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

// Text reads strings as encoding/json does, except for invalid UTF-8.
func FuzzText(f *testing.F) {
	for _, seed := range []string{`"a"`, `"\ud83d\ude00\u0000"`, `"\ud800\\"`, "\"\xff\"", `"\u12"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		var want string
		got := wire.Text(gjson.Parse(raw)) // of any text, without a panic
		if !utf8.ValidString(got) {
			t.Errorf("%s: %q is not Unicode", raw, got)
		}
		if json.Unmarshal([]byte(raw), &want) != nil || raw[0] != '"' || strings.Contains(want, "\ufffd") {
			return
		}
		if got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	})
}

func TestViewsDontLeak(t *testing.T) {
	data := []byte(`{"a":"text","b":{"c":1}}`)
	view := wire.ParseView(data)
	text, raw := wire.Text(view.Get("a")), wire.Bytes(view.Get("b"))
	clear(data)
	if text != "text" || string(raw) != `{"c":1}` {
		t.Errorf("%q, %s changed with the buffer", text, raw)
	}
	if wire.Bytes(view.Get("z")) != nil {
		t.Error("what isn't there has bytes")
	}
}
