package jsoncheck_test

import (
	"encoding/json"
	"strings"
	"testing"

	"switchyard.dev/services/platform/jsoncheck"
)

func nested(open, inside, shut string, n int) string {
	return strings.Repeat(open, n) + inside + strings.Repeat(shut, n)
}

func TestDepthIsBounded(t *testing.T) {
	const bound = jsoncheck.MaxDepth
	for name, tt := range map[string]struct {
		text string
		want bool
	}{
		"arrays at the bound":            {nested("[", "", "]", bound), true},
		"arrays beyond the bound":        {nested("[", "", "]", bound+1), false},
		"objects at the bound":           {nested(`{"a":`, "1", "}", bound), true},
		"objects beyond the bound":       {nested(`{"a":`, "1", "}", bound+1), false},
		"both beyond the bound":          {nested(`[{"a":`, "1", "}]", bound/2+1), false},
		"many beside one another":        {"[" + strings.Repeat(`[{"a":[]}],`, 3*bound) + "0]", true},
		"brackets in a text":             {`["` + strings.Repeat("[{", bound) + `"]`, true},
		"brackets behind escaped quotes": {`["` + strings.Repeat(`\\\"[`, 2*bound) + `",[]]`, true},
		"brackets behind a backslash":    {`["\\",` + nested("[", "", "]", bound) + `]`, false},
		"only opened":                    {strings.Repeat("[", 7<<20), false},
		"an unfinished text":             {strings.Repeat("[", bound) + `"` + strings.Repeat("[", bound), false},
	} {
		if got := jsoncheck.Valid([]byte(tt.text)); got != tt.want {
			t.Errorf("%s: valid = %t, want %t", name, got, tt.want)
		}
	}
}

func TestContainersAreBounded(t *testing.T) {
	const bound = jsoncheck.MaxContainers
	for name, tt := range map[string]struct {
		text string
		want bool
	}{
		"at the bound":       {"[" + strings.Repeat("{},", bound-1) + "0]", false},
		"beyond the bound":   {"[" + strings.Repeat("{},", bound) + "0]", true},
		"arrays too":         {strings.Repeat("[],", bound+1), true},
		"brackets in a text": {`["` + strings.Repeat("[{", bound) + `"]`, false},
	} {
		if got := jsoncheck.TooMany([]byte(tt.text)); got != tt.want {
			t.Errorf("%s: too many = %t, want %t", name, got, tt.want)
		}
	}
}

func TestObjectRule(t *testing.T) {
	const bound = jsoncheck.MaxDepth
	for name, tt := range map[string]struct{ text, want string }{
		"an object":                {" {\"a\":[1]}\n", ""},
		"an object at the bound":   {nested(`{"a":`, "1", "}", bound), ""},
		"a deep object":            {nested(`{"a":`, "1", "}", bound+1), jsoncheck.RuleDepth},
		"an object of many arrays": {`{"a":[` + strings.Repeat("[],", jsoncheck.MaxContainers) + `0]}`, jsoncheck.RuleContainers},
		"a deep array":             {nested("[", "", "]", bound+1), jsoncheck.RuleObject},
		"nothing":                  {"", jsoncheck.RuleObject},
		"space":                    {" \n", jsoncheck.RuleObject},
		"null":                     {"null", jsoncheck.RuleObject},
		"two objects":              {"{}{}", jsoncheck.RuleObject},
		"an unfinished object":     {`{"a":`, jsoncheck.RuleObject},
		"bytes that are no UTF-8":  {"{\"a\":\"\xff\"}", jsoncheck.RuleObject},
	} {
		if got := jsoncheck.ObjectRule([]byte(tt.text)); got != tt.want {
			t.Errorf("%s: rule %q, want %q", name, got, tt.want)
		}
	}
}

// A text that is not too deep is accepted exactly if encoding/json accepts it, and an accepted text is nested no deeper
// than the limit.
func FuzzValid(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-0.5e+7,true,false,null,"\ud800\u00e9\\\"",{"a":1,"a":2}]}`, "\"\xff\"", `[1,]`, `{"a":1,}`, `01`, `1.`, ` [ ] `, "\ufeff1", "", `"a`,
		nested("[", `"\"["`, "]", 199), nested(`{"a":`, `"{{"`, "}", 201), "\"\x00\"", "\"\t\"", "tru", "nul", "[1 2]", "-", "1e", `"\u00G0"`, `"\x"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		deep := depthOf(text) > jsoncheck.MaxDepth
		if got, want := jsoncheck.Valid([]byte(text)), json.Valid([]byte(text)) && !deep; got != want {
			t.Fatalf("%q: valid = %t, want %t", text, got, want)
		}
	})
}

// depthOf returns the depth of valid JSON, counted by its tokens.
func depthOf(text string) (deepest int) {
	tokens, depth := json.NewDecoder(strings.NewReader(text)), 0
	for {
		token, err := tokens.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('['), json.Delim('{'):
			depth++
			deepest = max(deepest, depth)
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
	}
}

// The forms of responses with which BENCH compares the check: an event, a short and a long response, vectors, and a
// request with many tools.
func BenchmarkValid(b *testing.B) {
	head := `{"id":"chatcmpl-1","object":"chat.completion","model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"`
	tail := `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29}}`
	tool := `{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}},`
	for name, text := range map[string]string{
		"500 B":             head + strings.Repeat("It is so. ", 25) + tail,
		"100 KB of text":    head + strings.Repeat(`It said \"so\" in a line.\n`, 3800) + tail,
		"100 KB of vectors": `{"data":[` + strings.Repeat(`{"embedding":[`+strings.Repeat("-0.012345,", 100)+`0]},`, 100) + `{}]}`,
		"100 KB of tools":   `{"tools":[` + strings.Repeat(tool, 900) + `{}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			data := []byte(text)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if !jsoncheck.Valid(data) {
					b.Fatal("the text is refused")
				}
			}
		})
	}
}
