package dialect_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/api/dialect"
)

func TestObject(t *testing.T) {
	o, err := dialect.Parse([]byte(`{"a":1,"b":null,"c":{"d":2},"e":"x","Model":"y"}`))
	if err != nil {
		t.Fatal(err)
	}
	var a, b int
	var model string
	for name, into := range map[string]any{"a": &a, "b": &b, "model": &model} {
		if err := o.Take(name, into); err != nil {
			t.Error(err)
		}
	}
	o.Ignore("e")
	if a != 1 || b != 0 || model != "" {
		t.Errorf("a %d, b %d, model %q, want 1 and none of the others", a, b, model)
	}
	if c := string(o.Raw("c")); c != `{"d":2}` {
		t.Errorf("c is %s", c)
	}
	if o.Raw("b") != nil || o.Has("b") {
		t.Errorf("b is %s, has %t, want a null to be none", o.Raw("b"), o.Has("b"))
	}
	if diff := cmp.Diff([]string{"Model"}, o.Rest()); diff != "" {
		t.Errorf("rest (-want +got):\n%s", diff)
	}
}

// Parse refuses raw keys in members that control a request, but not in content that the model reads.
func TestKeysInBodies(t *testing.T) {
	const key, random = "sk-ant-api03-Zx81Qw27Rt63Yu94Po50", "Zq4Wn2Kd7Vb5Xm1Tg9Hs3Jf6Lc0Rp4Ye8Ua2Bi"
	for body, refused := range map[string]string{
		`{"user":"` + key + `"}`: "user: ", `{"metadata":{"a":["` + key + `"]}}`: "metadata: ", `{"metadata":{"` + key + `":1}}`: "metadata: ",
		`{"user":"\u0073k-ant-api03-Zx81Qw27Rt63Yu94Po50"}`: "user: ", `{"` + key + `":1}`: "body: ", `{"byok":{"provider":"` + random + `"}}`: "byok: ",
		`{"user":"` + random + `"}`: "", `{"messages":[{"content":"` + key + `"}],"input":"` + key + `","tools":[{"description":"` + key + `"}]}`: "",
		`{"metadata":{"user_id":"user_0123456789abcdef_account_0f1e2d3c-1111-4222-8333-444455556666_session_0f1e2d3c-1111-4222-8333-444455556666"}}`: "",
	} {
		_, err := dialect.Parse([]byte(body))
		if text := fmt.Sprint(err); (err != nil) != (refused != "") || err != nil && (!strings.HasPrefix(text, refused) || strings.Contains(text, key)) {
			t.Errorf("%s: %v, want %q", body, err, refused)
		}
	}
}

// Members are returned as they are in the body, whatever is between them and however many there are; a duplicate name
// is found among many too.
func TestObjectOfMany(t *testing.T) {
	for _, n := range []int{1, 23, 24, 25, 200} {
		var body strings.Builder
		body.WriteString(" \n{")
		for i := range n {
			fmt.Fprintf(&body, "%s \t\"m%d\" :\n [%d, {\"x\" : \"]}\"} ] ", strings.Repeat(",", min(i, 1)), i, i)
		}
		o, err := dialect.Parse([]byte(body.String() + "}\n"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			name := fmt.Sprintf("m%d", i)
			want := fmt.Sprintf("[%d, {\"x\" : \"]}\"} ]", i)
			elements, err := dialect.Elements(name, o.Raw(name))
			if got := string(o.Raw(name)); got != want {
				t.Fatalf("%d members: %s = %s, want %s", n, name, got, want)
			}
			if err != nil || len(elements) != 2 {
				t.Fatalf("%d members: %s has the elements %s, %v, want two", n, name, elements, err)
			}
			if second := string(elements[1]); second != `{"x" : "]}"}` {
				t.Fatalf("%d members: the second element of %s is %s", n, name, second)
			}
		}
		if rest := o.Rest(); len(rest) != 0 || o.Has("other") || o.Raw("other") != nil {
			t.Errorf("%d members: rest %v", n, rest)
		}
		if _, err := dialect.Parse([]byte(body.String() + `,"m0":1}`)); err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("%d members, the first one twice: %v", n, err)
		}
	}
}

// What is read without encoding/json equals what encoding/json reads.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{`"x"`, `"\u0041"`, `"ü"`, "\"\xff\"", `""`, `true`, `false`, `null`, `1`, `-0`, `1.0`, `1e3`, `1e400`, `9223372036854775808`, `"1"`, `[1]`, `{"a":1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) || len(bytes.TrimSpace(text)) != len(text) {
			t.Skip()
		}
		decodeAlike[string](t, text)
		decodeAlike[bool](t, text)
		decodeAlike[*int](t, text)
		decodeAlike[*float64](t, text)
	})
}

func decodeAlike[T any](t *testing.T, text []byte) {
	t.Helper()
	var got, want T
	err, wanted := dialect.Decode("field", text, &got), json.Unmarshal(text, &want)
	if (err == nil) != (wanted == nil) || err == nil && !cmp.Equal(got, want) {
		t.Errorf("%s into %T: %v, %v; encoding/json %v, %v", text, got, got, err, want, wanted)
	}
}

// The name's position may move from frame to frame; what resembles it elsewhere stays.
func TestRenamer(t *testing.T) {
	r := dialect.NewRenamer("model", `my "m"`)
	for frame, want := range map[string]string{
		`{"id":"1","model":"up","x":1}`:               `{"id":"1","model":"my \"m\"","x":1}`,
		`{"id":"22","model":"up","x":1}`:              `{"id":"22","model":"my \"m\"","x":1}`,
		`{"id":"1","model":"other","x":1}`:            `{"id":"1","model":"my \"m\"","x":1}`,
		`{"id":{"model":"up"},"model":"up"}`:          `{"id":{"model":"up"},"model":"my \"m\""}`,
		`{"i":{"model":"up"},"x":"\"model\":\"up\""}`: `{"i":{"model":"up"},"x":"\"model\":\"up\""}`,
		`{"model":null}`:                              `{"model":null}`,
		`{"x":"model","model" : "up"}`:                `{"x":"model","model" : "my \"m\""}`,
		`not json`:                                    `not json`,
		``:                                            ``,
		`{"model":"up`:                                `{"model":"up`,
		`{"a":"{\"model\":\"up\"}","model":"up","b":["z"]}`: `{"a":"{\"model\":\"up\"}","model":"my \"m\"","b":["z"]}`,
	} {
		for range 2 {
			if got := string(r.Append(nil, []byte(frame))); got != want {
				t.Errorf("%s: %s, want %s", frame, got, want)
			}
		}
	}
}

func TestAppendData(t *testing.T) {
	for want, data := range map[string][2]string{
		"data: {}\n\n":                         {"", "{}"},
		"event: e\ndata: {\ndata: }\n\n":       {"e", "{\n}"},
		"event: e\ndata: \n\n":                 {"e", ""},
		"data: a\ndata: \ndata: b\ndata: \n\n": {"", "a\n\nb\n"},
	} {
		if got := string(dialect.AppendData(nil, data[0], []byte(data[1]))); got != want {
			t.Errorf("%q: %q, want %q", data, got, want)
		}
	}
}

func FuzzRenamer(f *testing.F) {
	f.Add(`{"model":"a","x":1}`, `{"y":{},"model":"a"}`)
	f.Fuzz(func(t *testing.T, first, second string) {
		fresh := func(frame string) string { return string(dialect.NewRenamer("model", "n").Append(nil, []byte(frame))) }
		r := dialect.NewRenamer("model", "n")
		for _, frame := range []string{first, second, first} {
			got := string(r.Append(nil, []byte(frame)))
			if valid := strings.HasPrefix(frame, "{"); valid && got != fresh(frame) && strings.Count(frame, `"model"`) < 2 {
				t.Errorf("%q after %q: %q, alone %q", frame, first, got, fresh(frame))
			}
		}
	})
}
