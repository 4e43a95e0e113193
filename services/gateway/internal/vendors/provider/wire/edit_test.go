package wire

import (
	"encoding/json"
	"testing"

	"github.com/tidwall/gjson"
)

// A removed member takes one comma with it, wherever it is; every other byte stays.
func TestEditorLeavesTheRest(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1, "x":2, "b" : 3}`:         `{"a":1, "b" : 3}`,
		`{"x":{"y":[1]}, "a":1}`:          `{"a":1}`,
		`{ "a":1 , "x":2 }`:               `{ "a":1 }`,
		`{"x":1}`:                         `{}`,
		`{ "x":1 , "x":2 }`:               `{  }`,
		`{"x":1,"x":2, "a":3}`:            `{"a":3}`,
		`{"a":1,"x":1,"x":2}`:             `{"a":1}`,
		`{"x":0,"a":1,"x":1,"b":2,"x":2}`: `{"a":1,"b":2}`,
		`{"r":"old", "a":"old"}`:          `{"r":"new", "a":"old"}`,
		`{"x":0,"r":[ ],"x":{}}`:          `{"r":"new"}`,
		` {"a":{"r":1,"x":2}, "x":0} `:    ` {"a":{"r":"new"}} `,
		`{"\u0078":1,"a":"\"x\":{"}`:      `{"a":"\"x\":{"}`,
		`{}`:                              `{}`,
		`[1]`:                             `[1]`,
		`"x"`:                             `"x"`,
	} {
		edit, root := NewEditor(gjson.Parse(text))
		var visit func(string, gjson.Result) bool
		visit = func(name string, value gjson.Result) bool {
			switch name {
			case "x":
				return true
			case "r":
				edit.Replace(value, `"new"`)
			default:
				edit.Members(value, visit)
			}
			return false
		}
		edit.Members(root, visit)
		if got := edit.End(); got != gjson.Parse(want).Raw {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		if !json.Valid([]byte(want)) {
			t.Errorf("%s is wanted, which is no JSON", want)
		}
	}
}
