package input_test

import (
	"errors"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/mcp/input"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/testkit/growth"
)

const whole = `{"mode":"form","message":"files: m","requestedSchema":{"type":"object","properties":{
	"s":{"type":"string","minLength":2,"maxLength":3},"n":{"type":"number","minimum":1,"maximum":2.5},"i":{"type":"integer"},"b":{"type":"boolean"},
	"e":{"type":"string","enum":["a","b"]},"t":{"type":"string","oneOf":[{"const":"c","title":"C"}]},
	"l":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["a","b"]}}},"required":["s"]}}`

func TestCheck(t *testing.T) {
	form, page := elicit(whole), elicit(`{"mode":"url","message":"m","url":"https://files.example/"}`)
	sample, roots := &input.Request{Method: wire.MethodSample}, &input.Request{Method: wire.MethodRoots}
	for _, c := range []struct {
		request      *input.Request
		answer, want string
	}{
		{form, `{"action":"decline","content":{"s":1},"_meta":{}}`, `{"action":"decline"}`},
		{form, `{"action":"cancel"}`, `{"action":"cancel"}`},
		{form, `{"action":"accept","content":{"s":"äö"},"x":1}`, `{"action":"accept","content":{"s":"äö"}}`},
		{
			form, `{"content":{"l":["a","b"],"s":"abc","n":2.5,"i":-7,"b":false,"e":"b","t":"c"},"action":"accept"}`,
			`{"action":"accept","content":{"l":["a","b"],"s":"abc","n":2.5,"i":-7,"b":false,"e":"b","t":"c"}}`,
		},
		{page, `{"action":"accept","content":{"x":1}}`, `{"action":"accept"}`},
		{page, `{"action":"decline"}`, `{"action":"decline"}`},
		{
			sample, `{"model":"m","role":"assistant","content":{"type":"text","text":"a"},"stopReason":"endTurn","_meta":{},"x":1}`,
			`{"role":"assistant","content":{"type":"text","text":"a"},"model":"m","stopReason":"endTurn"}`,
		},
		{sample, `{"model":"m","role":"user","content":[{"type":"tool_use"}]}`, `{"role":"user","content":[{"type":"tool_use"}],"model":"m"}`},
		{roots, `{"roots":[{"uri":"file:///a","name":"A","_meta":{}},{"uri":"file:///b"}]}`, `{"roots":[{"uri":"file:///a","name":"A"},{"uri":"file:///b"}]}`},
		{roots, `{"roots":[]}`, `{"roots":[]}`},
	} {
		got, err := c.request.Check(raw(c.answer))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s %v, want %s", c.answer, got, err, c.want)
		}
		brief := c.request.Brief()
		if again, err := brief.Check(raw(c.answer)); err != nil || string(again) != c.want || strings.Contains(string(brief.Params), "message") {
			t.Errorf("%s, to what is kept of the request: %s %v", c.answer, again, err)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	form := elicit(whole)
	for _, answer := range []string{
		``, `null`, `[]`, `{`, `{}`, `{"action":"ok"}`, `{"action":1}`, `{"Action":"accept"}`, `{"action":"accept"}`, `{"action":"accept","content":[]}`,
		`{"action":"accept","content":{"s":"a"}}`, `{"action":"accept","content":{"s":"abcd"}}`, `{"action":"accept","content":{"s":null}}`,
		`{"action":"accept","content":{"s":"ab","x":1}}`, `{"action":"accept","content":{"s":"ab","n":3}}`, `{"action":"accept","content":{"s":"ab","n":0}}`,
		`{"action":"accept","content":{"s":"ab","n":"2"}}`, `{"action":"accept","content":{"s":"ab","n":1e999}}`, `{"action":"accept","content":{"s":"ab","i":1.5}}`,
		`{"action":"accept","content":{"s":"ab","b":"true"}}`, `{"action":"accept","content":{"s":"ab","b":1}}`, `{"action":"accept","content":{"s":"ab","e":"c"}}`,
		`{"action":"accept","content":{"s":"ab","t":"C"}}`, `{"action":"accept","content":{"s":"ab","l":[]}}`, `{"action":"accept","content":{"s":"ab","l":["a","b","a"]}}`,
		`{"action":"accept","content":{"s":"ab","l":["c"]}}`, `{"action":"accept","content":{"s":"ab","l":"a"}}`, `{"action":"accept","content":{"s":{"a":1}}}`,
		`{"action":"accept","content":{"s":"ab","s":"ab"}}`, `{"action":"accept","content":{"s":"` + strings.Repeat("a", input.MaxAnswer) + `"}}`,
	} {
		got, err := form.Check(raw(answer))
		if _, ok := errors.AsType[*input.Error](err); !ok {
			t.Errorf("%.80s: %s %v", answer, got, err)
		}
	}
	many := `{"roots":[{"uri":"a"}` + strings.Repeat(`,{"uri":"a"}`, 100) + `]}`
	for answer, method := range map[string]string{
		`{"role":"system","content":{"type":"text"},"model":"m"}`: wire.MethodSample, `{"role":"user","content":{"type":"text"}}`: wire.MethodSample,
		`{"role":"user","content":"x","model":"m"}`: wire.MethodSample, `{"role":"user","content":{},"model":"m"}`: wire.MethodSample,
		`{"role":"user","model":"m"}`: wire.MethodSample, `{"role":"user","content":{"type":"text"},"model":"m","stopReason":1}`: wire.MethodSample,
		`{"role":"user","content":[1],"model":"m"}`: wire.MethodSample,
		`{}`: wire.MethodRoots, `{"roots":{}}`: wire.MethodRoots, `{"roots":[{}]}`: wire.MethodRoots, `{"roots":[{"uri":1}]}`: wire.MethodRoots, many: wire.MethodRoots,
		`{"roots":[{"uri":"a","name":1}]}`: wire.MethodRoots, `{"action":"accept"}`: "tools/call",
	} {
		if got, err := (&input.Request{Method: method}).Check(raw(answer)); err == nil {
			t.Errorf("%.80s: %s", answer, got)
		}
	}
}

func TestGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each(growth.JSON, func(text []byte) {
		_, _ = input.Read(text)
		_ = input.Offered(text, input.Offer{Elicitation: true, Sampling: true, Roots: true})
		for _, method := range []string{wire.MethodElicit, wire.MethodSample, wire.MethodRoots} {
			r := &input.Request{Method: method, Params: text}
			_, _ = r.Screen(screen)
			_, _ = r.Check(text)
		}
	})...)
}

// FuzzRequests checks that what is put to a caller is what a second reading would put to it, and that an answer is
// accepted again as it was rebuilt.
func FuzzRequests(f *testing.F) {
	f.Add([]byte(`{"k":{"method":"elicitation/create","params":`+whole+`}}`), []byte(`{"action":"accept","content":{"s":"ab"}}`))
	f.Add([]byte(`{"k":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","$ref":"#","properties":{}}}}}`), []byte(`{"action":"accept"}`))
	f.Add([]byte(`{"k":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}}`), []byte(`{"role":"user","content":{"type":"text"},"model":"m"}`))
	f.Add([]byte(`{"k":{"method":"roots/list"}}`), []byte(`{"roots":[{"uri":"file:///"}]}`))
	f.Fuzz(func(t *testing.T, requests, answer []byte) {
		all, err := input.Read(requests)
		if err != nil {
			return
		}
		var put []input.Request
		for i := range all {
			shown, err := all[i].Screen(screen)
			if err != nil {
				continue
			}
			put = append(put, shown)
			got, err := shown.Check(answer)
			if err != nil {
				continue
			}
			if again, err := shown.Check(got); err != nil || string(again) != string(got) {
				t.Fatalf("an answer as it was rebuilt: %s, then %s %v", got, again, err)
			}
		}
		if again, err := input.Read(input.Encode(put)); err != nil || len(again) != len(put) {
			t.Fatalf("what was put to the caller can't be read: %s %v", input.Encode(put), err)
		}
	})
}
