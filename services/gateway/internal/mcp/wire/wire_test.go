package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestCheck(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"a":[`, n/2) + strings.Repeat(`]}`, n/2) }
	for text, want := range map[string]error{
		`{"a":1,"b":[true,null,"\ud83d\ude00"]}`: nil,
		`{"a":1,"A":2}`:                          nil,
		`{"a":{"b":1,"b":2}}`:                    wire.ErrDuplicate,
		`{"a":1,"\u0061":2}`:                     wire.ErrDuplicate,
		`[{"":0},{"":0,"":1}]`:                   wire.ErrDuplicate,
		"{\"a\":\"\xff\"}":                       wire.ErrJSON,
		`{"a":"\ud83d"}`:                         wire.ErrJSON,
		`{"a":1}{"a":1}`:                         wire.ErrJSON,
		`{"a":1} x`:                              wire.ErrJSON,
		`{"a":01}`:                               wire.ErrJSON,
		``:                                       wire.ErrJSON,
		`{"a":`:                                  wire.ErrJSON,
		"\xef\xbb\xbf{}":                         wire.ErrJSON,
		nested(64):                               nil,
		nested(66):                               wire.ErrDepth,
		strings.Repeat("[", 1<<20):               wire.ErrDepth,
		`{"a":"` + strings.Repeat("[", 99) + `"}`: nil,
	} {
		if err := wire.Check([]byte(text)); !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("%.40q: %v, want %v", text, err, want)
		}
	}
}

func TestParse(t *testing.T) {
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	for text, want := range map[string]wire.Message{
		`{"jsonrpc":"2.0","id":7,"method":"ping"}`:                                {ID: raw("7"), Method: "ping"},
		`{"method":"a","params":{"b":[1]},"id":"x","jsonrpc":"2.0","other":true}`: {ID: raw(`"x"`), Method: "a", Params: raw(`{"b":[1]}`)},
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`:         {Method: "notifications/progress", Params: raw("{}")},
		`{"jsonrpc":"2.0","id":-1,"result":{"a":1e9}}`:                            {ID: raw("-1"), Result: raw(`{"a":1e9}`)},
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no","data":[]}}`: {
			ID: raw("1"), Error: &wire.Error{Code: wire.CodeMethodNotFound, Message: "no", Data: raw("[]")},
		},
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":""}}`: {Error: &wire.Error{Code: wire.CodeParse}},
		`{"jsonrpc":"2.0","error":{"code":1,"message":"a"}}`:               {Error: &wire.Error{Code: 1, Message: "a"}},
	} {
		got, err := wire.Parse([]byte(text))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
		again, err := wire.Parse(got.Append(nil))
		if diff := cmp.Diff(want, again); err != nil || diff != "" {
			t.Errorf("%s, written and read again: %v\n%s", text, err, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, text := range []string{
		`[]`, `null`, `1`, `[{"jsonrpc":"2.0","id":1,"method":"a"}]`,
		`{"id":1,"method":"a"}`,
		`{"jsonrpc":"1.0","id":1,"method":"a"}`,
		`{"jsonrpc":2.0,"id":1,"method":"a"}`,
		`{"jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":1}`,
		`{"jsonrpc":"2.0","id":1.5,"method":"a"}`,
		`{"jsonrpc":"2.0","id":{},"method":"a"}`,
		`{"jsonrpc":"2.0","id":null,"method":"a"}`,
		`{"jsonrpc":"2.0","id":"` + long + `","method":"a"}`,
		`{"jsonrpc":"2.0","id":1,"Method":"a"}`,
		`{"jsonrpc":"2.0","id":1,"method":""}`,
		`{"jsonrpc":"2.0","id":1,"method":"` + long + `"}`,
		`{"jsonrpc":"2.0","id":1,"method":1}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","params":[]}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`,
		`{"jsonrpc":"2.0","id":1,"result":[]}`,
		`{"jsonrpc":"2.0","id":null,"result":{}}`,
		`{"jsonrpc":"2.0","result":{}}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"a"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"params":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"a"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"message":"a"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1}}`,
		`{"jsonrpc":"2.0","id":1,"error":"a"}`,
	} {
		if got, err := wire.Parse([]byte(text)); err == nil {
			t.Errorf("%.80s: read as %+v", text, got)
		}
	}
}

func TestHeaders(t *testing.T) {
	for value, want := range map[string]string{
		"us-west1":               "us-west1",
		"a b":                    "a b",
		"":                       "",
		"Hello, \u4e16\u754c":    "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":               "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2":           "=?base64?bGluZTEKbGluZTI=?=",
		"=?base64?literal?=":     "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
		"=?base64?=":             "=?base64?=",
		"=?BASE64?literal?=":     "=?BASE64?literal?=",
		"a\r\nAuthorization: me": "=?base64?YQ0KQXV0aG9yaXphdGlvbjogbWU=?=",
	} {
		if got := wire.EncodeHeader(value); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
		if got, ok := wire.DecodeHeader(want); !ok || got != value {
			t.Errorf("%q: decoded as %q, %t", want, got, ok)
		}
	}
	for _, header := range []string{"\u4e16", " a", "a\tb", "=?base64?***?=", "=?base64?YQ?=", "=?base64?YR==?=", "=?base64?YQ\n==?="} {
		if got, ok := wire.DecodeHeader(header); ok {
			t.Errorf("%q: decoded as %q", header, got)
		}
	}
}

func TestParams(t *testing.T) {
	schema := `{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"x-mcp-header":{"type":"string"},
		"of":{"type":"object","default":{"x-mcp-header":1},"properties":{"n":{"x-mcp-header":"N","type":"integer"},"on":{"type":"boolean","x-mcp-header":"On"}}}
	}}`
	params, err := wire.Params([]byte(schema))
	want := []wire.Param{{"Mcp-Param-Region", []string{"region"}}, {"Mcp-Param-N", []string{"of", "n"}}, {"Mcp-Param-On", []string{"of", "on"}}}
	if diff := cmp.Diff(want, params); err != nil || diff != "" {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	for arguments, want := range map[string][]string{
		`{"region":"us","of":{"n":-7,"on":true}}`:     {"us", "-7", "true"},
		`{"region":"\u4e16"}`:                         {"=?base64?5LiW?=", "", ""},
		`{"region":null,"of":{"n":9007199254740992}}`: {"", "", ""},
		`{"region":1,"of":{"n":1.5,"on":{}}}`:         {"1", "", ""},
		`{"of":[]}`:                                   {"", "", ""},
		`{}`:                                          {"", "", ""},
		`{"of":{"on":false,"n":9007199254740991},"region":""}`: {"", "9007199254740991", "false"},
	} {
		for i, p := range params {
			if got, _ := p.Value([]byte(arguments)); got != want[i] {
				t.Errorf("%s: %s is %q, want %q", arguments, p.Header, got, want[i])
			}
		}
	}
}

func TestParamsRefuses(t *testing.T) {
	property := func(text string) string { return `{"properties":{"a":` + text + `}}` }
	for _, schema := range []string{
		`{"x-mcp-header":"A","type":"string"}`,
		property(`{"type":"string","x-mcp-header":""}`),
		property(`{"type":"string","x-mcp-header":"a b"}`),
		property(`{"type":"string","x-mcp-header":"a\r\nb"}`),
		property(`{"type":"string","x-mcp-header":"\u00e4"}`),
		property(`{"type":"string","x-mcp-header":1}`),
		property(`{"type":"string","x-mcp-header":"` + strings.Repeat("a", 129) + `"}`),
		property(`{"type":"number","x-mcp-header":"A"}`),
		property(`{"type":["string","null"],"x-mcp-header":"A"}`),
		property(`{"x-mcp-header":"A"}`),
		property(`{"type":"array","items":{"type":"string","x-mcp-header":"A"}}`),
		property(`{"anyOf":[{"type":"string","x-mcp-header":"A"}]}`),
		`{"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}`,
		`{"patternProperties":{"a":{"type":"string","x-mcp-header":"A"}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`,
	} {
		if got, err := wire.Params([]byte(schema)); err == nil {
			t.Errorf("%s: read as %v", schema, got)
		}
	}
}

func TestParseGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around(`{"jsonrpc":"2.0","id":1,"result":{"a":`, growth.JSON, `}}`), growth.JSON...)
	inputs = append(inputs, growth.Number("properties", `{"properties":{"a":{}`, `,"a#":{"type":"string","x-mcp-header":"H#"}`, `}}`))
	growth.Linear(t, growth.Each(inputs, func(text []byte) {
		_, _ = wire.Parse(text)
		if wire.Check(text) == nil {
			_, _ = wire.Params(text)
		}
	})...)
}

func TestHeaderGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) { _, _ = wire.DecodeHeader(wire.EncodeHeader(text)) })...)
}

// FuzzParse checks that a message that is read is valid, and is the same once it was written.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"a":"\u0000"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"b"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"x","data":{"y":[]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := wire.Parse(text)
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q is no JSON", text)
		}
		again, err := wire.Parse(m.Append(nil))
		if diff := cmp.Diff(m, again); err != nil || diff != "" {
			t.Fatalf("%q: %v\n%s", text, err, diff)
		}
		if m.Result != nil {
			if _, err := wire.Params(m.Result); err == nil && !bytes.HasPrefix(m.Result, []byte("{")) {
				t.Fatalf("%q: a result that is no object", text)
			}
		}
	})
}

// FuzzHeader checks that every text survives a header, and that no value breaks out of it.
func FuzzHeader(f *testing.F) {
	f.Add("a\r\nb")
	f.Add("=?base64?YQ==?=")
	f.Fuzz(func(t *testing.T, value string) {
		header := wire.EncodeHeader(value)
		if strings.ContainsFunc(header, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q became %q", value, header)
		}
		if got, ok := wire.DecodeHeader(header); !ok || got != value {
			t.Fatalf("%q became %q, and that %q, %t", value, header, got, ok)
		}
		if decoded, ok := wire.DecodeHeader(value); ok && strings.Contains(value, "\n") {
			t.Fatalf("%q was decoded as %q", value, decoded)
		}
	})
}
