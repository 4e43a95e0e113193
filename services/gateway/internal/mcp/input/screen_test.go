package input_test

import (
	"errors"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/mcp/input"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

var screen = input.Screen{Server: "files", URL: func(origin string) bool { return origin == "https://files.example:443" }}

func elicit(params string) *input.Request {
	return &input.Request{Key: "k", Method: wire.MethodElicit, Params: raw(params)}
}

func TestScreen(t *testing.T) {
	form := func(properties string) *input.Request {
		return elicit(`{"message":"m","requestedSchema":{"type":"object","properties":{` + properties + `}}}`)
	}
	rebuilt := func(properties string) string {
		return `{"mode":"form","message":"files: m","requestedSchema":{"type":"object","properties":{` + properties + `}}}`
	}
	for _, c := range []struct {
		request *input.Request
		want    string
	}{
		{form(""), rebuilt("")},
		{form(`"b":{"type":"boolean","default":true,"title":"B","$ref":"#","x":[[[]]]},"a":{"type":"string"}`), rebuilt(`"b":{"type":"boolean","title":"B","default":true},"a":{"type":"string"}`)},
		{
			form(`"n":{"type":"integer","minimum":1,"maximum":10.5,"default":11},"s":{"type":"string","minLength":1,"maxLength":3,"format":"email","pattern":"(a+)+","default":"abcd"}`),
			rebuilt(`"n":{"type":"integer","minimum":1,"maximum":10.5},"s":{"type":"string","minLength":1,"maxLength":3,"format":"email"}`),
		},
		{form(`"s":{"type":"string","format":"regex","minimum":1,"items":{}}`), rebuilt(`"s":{"type":"string"}`)},
		{form(`"e":{"type":"string","enum":["a","b"],"enumNames":["A","B"],"default":"b"}`), rebuilt(`"e":{"type":"string","enum":["a","b"],"enumNames":["A","B"],"default":"b"}`)},
		{form(`"e":{"type":"string","oneOf":[{"const":"a","title":"A","$ref":"#"}],"default":"c"}`), rebuilt(`"e":{"type":"string","oneOf":[{"const":"a","title":"A"}]}`)},
		{
			form(`"l":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["a","b"]},"default":["a"],"uniqueItems":true}`),
			rebuilt(`"l":{"type":"array","items":{"type":"string","enum":["a","b"]},"minItems":1,"maxItems":2,"default":["a"]}`),
		},
		{form(`"l":{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}`), rebuilt(`"l":{"type":"array","items":{"type":"string","anyOf":[{"const":"a","title":"A"}]}}`)},
		{
			elicit(`{"mode":"form","message":"a\u202eb\nc","requestedSchema":{"$schema":"x","type":"object","$ref":"#","allOf":[{"$ref":"#"}],"properties":{"a":{"type":"string"}},"required":["a"]},"_meta":{},"task":{}}`),
			`{"mode":"form","message":"files: ab\nc","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}}`,
		},
		{elicit(`{"mode":"url","message":"m","url":"https://files.example/a?b=c","elicitationId":"theirs"}`), `{"mode":"url","message":"files: m","url":"https://files.example/a?b=c"}`},
		{
			&input.Request{Method: wire.MethodSample, Params: raw(`{"messages":[{"role":"user"}],"maxTokens":9,"includeContext":"allServers","_meta":{},"systemPrompt":"s","temperature":-1.5}`)},
			`{"messages":[{"role":"user"}],"maxTokens":9,"systemPrompt":"s","temperature":-1.5}`,
		},
		{&input.Request{Method: wire.MethodRoots, Params: raw(`{"x":1}`)}, ""},
	} {
		got, err := c.request.Screen(screen)
		if err != nil || string(got.Params) != c.want || got.Key != c.request.Key || got.Method != c.request.Method {
			t.Errorf("%s:\n%v %v\n%s, want\n%s", c.request.Params, got.Key, err, got.Params, c.want)
		}
		if again, err := got.Screen(input.Screen{Server: "files", URL: screen.URL}); err != nil || c.request.Method != wire.MethodElicit && string(again.Params) != c.want {
			t.Errorf("%s: what was rebuilt: %v", c.request.Params, err)
		}
	}
	named := screen
	named.ID = "ours"
	got, err := elicit(`{"mode":"url","message":"m","url":"https://files.example/","elicitationId":"theirs"}`).Screen(named)
	if want := `{"mode":"url","message":"files: m","url":"https://files.example/","elicitationId":"ours"}`; err != nil || string(got.Params) != want {
		t.Errorf("named: %s %v", got.Params, err)
	}
}

func TestScreenRefuses(t *testing.T) {
	form := func(properties string) string {
		return `{"message":"m","requestedSchema":{"type":"object","properties":{` + properties + `}}}`
	}
	for _, params := range []string{
		`{}`, `{"message":""}`, `{"message":1}`, `{"message":"` + strings.Repeat("m", 17<<10) + `"}`, `{"message":"m"}`, `{"message":"m","mode":"x"}`, `{"message":"m","mode":1}`,
		`{"message":"m","requestedSchema":{"$ref":"#"}}`, `{"message":"m","requestedSchema":{"type":"object","properties":[]}}`,
		`{"message":"m","requestedSchema":{"type":["object"],"properties":{}}}`, `{"message":"m","requestedSchema":true}`,
		form(`"a":{}`), form(`"a":true`), form(`"a":{"$ref":"#"}`), form(`"a":{"type":"object","properties":{}}`), form(`"a":{"type":["string","null"]}`),
		form(`"a":{"type":"array"}`), form(`"a":{"type":"array","items":{"type":"object"}}`), form(`"a":{"type":"array","items":{"type":"string"}}`),
		form(`"a":{"type":"string","enum":[1]}`), form(`"a":{"type":"string","oneOf":[{"const":1}]}`), form(`"a":{"type":"string","minLength":1.5}`),
		form(`"":{"type":"string"}`), form(`"` + strings.Repeat("a", 513) + `":{"type":"string"}`),
		form(`"a":{"type":"string","title":"` + strings.Repeat("t", 513) + `"}`),
		form(`"a":{"type":"string","enum":["a"` + strings.Repeat(`,"a"`, 256) + `]}`),
		form(strings.TrimPrefix(strings.Repeat(`,"a@":{"type":"string"}`, 65), ",")),
		`{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}},"required":["b"]}}`,
		`{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}},"required":"a"}}`,
		form(`"password":{"type":"string"}`), form(`"apiKey":{"type":"string"}`), form(`"API_KEY":{"type":"string"}`), form(`"x":{"type":"string","title":"Your access token"}`),
		form(`"card-number":{"type":"integer"}`), form(`"userPIN":{"type":"integer"}`),
		`{"mode":"url","message":"m"}`, `{"mode":"url","message":"m","url":"https://evil.example/"}`, `{"mode":"url","message":"m","url":"http://files.example/"}`,
		`{"mode":"url","message":"m","url":"https://files.example@evil.example/"}`, `{"mode":"url","message":"m","url":"https://a@files.example/"}`,
		`{"mode":"url","message":"m","url":"https://files.example\\@evil.example/"}`, `{"mode":"url","message":"m","url":"javascript:alert(1)"}`,
		`{"mode":"url","message":"m","url":"//files.example/"}`, `{"mode":"url","message":"m","url":"https://files.example:444/"}`,
		`{"mode":"url","message":"m","url":"https://files.example/` + strings.Repeat("a", 2048) + `"}`, `{"mode":"url","message":"m","url":"https://files.examplé/"}`,
	} {
		for i := range 70 { // Names that differ.
			params = strings.Replace(params, "a@", "a"+strings.Repeat("b", i), 1)
		}
		got, err := elicit(params).Screen(screen)
		if _, ok := errors.AsType[*input.Error](err); !ok {
			t.Errorf("%.120s: %s %v", params, got.Params, err)
		}
	}
	page := elicit(`{"mode":"url","message":"m","url":"https://files.example/"}`)
	if _, err := page.Screen(input.Screen{Server: "files"}); err == nil {
		t.Error("a page where none may be opened")
	}
	for _, params := range []string{`{}`, `{"messages":{},"maxTokens":1}`, `{"messages":[],"maxTokens":"1"}`, `{"messages":[]}`, `{"messages":[],"maxTokens":1,"tools":{}}`} {
		if got, err := (&input.Request{Method: wire.MethodSample, Params: raw(params)}).Screen(screen); err == nil {
			t.Errorf("%s: %s", params, got.Params)
		}
	}
	if _, err := (&input.Request{Method: "tools/call"}).Screen(screen); err == nil {
		t.Error("a method that no server may ask")
	}
}

// Words that only look like those of secrets are no secrets.
func TestScreenTakesOtherNames(t *testing.T) {
	for _, name := range []string{"max_tokens", "pinned", "secretary", "keyboard", "cardinal", "spinning", "tokens", "E-mail", "user name"} {
		if _, err := elicit(`{"message":"m","requestedSchema":{"type":"object","properties":{"` + name + `":{"type":"string"}}}}`).Screen(screen); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
