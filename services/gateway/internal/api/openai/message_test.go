package openai

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A message that is decoded in one pass equals what encoding/json decodes; all others are left to it.
func TestPlainMessages(t *testing.T) {
	for text, plain := range map[string]bool{
		`{"role":"user","content":"hi"}`: true, `{"content":"a \"b\" é","role":"system","name":"ann"}`: true,
		`{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"x"}]}`: true,
		`{"role":"assistant","content":null,"tool_calls":null,"refusal":null}`:       true,
		`{ "role" : "user" , "content" : "spaced" }`:                                 true,
		`{}`: true, `{"role":null}`: true,
		`{"role":"assistant","content":"x","tool_calls":[]}`: false, `{"role":"assistant","refusal":"no"}`: false,
		`{"Role":"user","content":"x"}`: false, `{"role":"user","more":1}`: false, `{"role":"user","role":"system"}`: false,
		`{"role":"us\u0065r"}`: false, `{"role":5}`: false, `{"role":"user","name":["x"]}`: false, `{"r\u006fle":"user"}`: false,
		`"user"`: false, `null`: false, `[]`: false,
	} {
		var got, want message
		taken := got.readPlain([]byte(text))
		if taken != plain {
			t.Errorf("%s: taken %t", text, taken)
		}
		if !taken {
			continue
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if string(want.Content) == "null" {
			want.Content = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
