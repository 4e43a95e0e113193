package input

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Bounds of an answer.
const (
	// MaxAnswer bounds an answer, in bytes: that of a model may hold pictures.
	MaxAnswer = 1 << 20
	maxRoots  = 100
	maxURI    = 2048
)

// Actions of an elicitation's answer.
const (
	ActionAccept  = "accept"
	ActionDecline = "decline"
	ActionCancel  = "cancel"
)

// Brief returns what Check needs of the request, without what its caller was shown.
func (r *Request) Brief() Request {
	out := Request{Key: r.Key, Method: r.Method}
	if r.Method != wire.MethodElicit {
		return out
	}
	e := r.elicitation()
	out.Params = jsontext.AppendText([]byte(`{"mode":`), e.mode)
	if e.schema != nil {
		out.Params = append(append(out.Params, `,"requestedSchema":`...), e.schema...)
	}
	out.Params = append(out.Params, '}')
	return out
}

// Check returns the answer of a caller to the request, as Screen has returned it, rebuilt from what is known. The error is
// an *Error.
func (r *Request) Check(answer json.RawMessage) (json.RawMessage, error) {
	if len(answer) > MaxAnswer {
		return nil, refuse("answer", fmt.Sprintf("must have at most %d bytes", MaxAnswer))
	}
	if err := wire.Check(answer); err != nil {
		return nil, refuse("answer", err.Error())
	}
	members := make(map[string]json.RawMessage)
	if !wire.Members(answer, func(name string, value []byte) bool {
		switch name {
		case "action", "content", "role", "model", "stopReason", "roots":
			members[name] = value
		}
		return true
	}) {
		return nil, refuse("answer", "must be an object")
	}
	switch r.Method {
	case wire.MethodElicit:
		return r.checkElicitation(members)
	case wire.MethodSample:
		return checkSampling(members)
	case wire.MethodRoots:
		return checkRoots(members["roots"])
	}
	return nil, refuse("method", "is none that servers may ask")
}

func (r *Request) checkElicitation(members map[string]json.RawMessage) (json.RawMessage, error) {
	switch action := textOf(members["action"]); action {
	case ActionDecline, ActionCancel:
		return json.RawMessage(`{"action":"` + action + `"}`), nil
	case ActionAccept:
	default:
		return nil, refuse("action", "must be accept, decline or cancel")
	}
	e := r.elicitation()
	if e.mode == modeURL {
		return json.RawMessage(`{"action":"accept"}`), nil
	}
	f, err := readForm(e.schema)
	if err != nil {
		return nil, err
	}
	content, err := f.check(orEmpty(members["content"]))
	if err != nil {
		return nil, err
	}
	return append(append([]byte(`{"action":"accept","content":`), content...), '}'), nil
}

// check returns the content of a filled-in form. Each field has the type that was asked for, and no other is there.
func (f *form) check(content json.RawMessage) (json.RawMessage, error) {
	kinds := make(map[string]*fieldKind, len(f.fields))
	for i := range f.fields {
		kinds[f.fields[i].name] = &f.fields[i].kind
	}
	out, filled := []byte{'{'}, make(map[string]bool)
	var wrong error
	isObject := wire.Members(content, func(name string, value []byte) bool {
		kind := kinds[name]
		if kind == nil {
			wrong = refuse("content", "must have no fields that were not asked for")
			return false
		}
		if rule := kind.check(value); rule != "" {
			wrong = refuse("content."+name, rule)
			return false
		}
		filled[name] = true
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsontext.AppendText(out, name), ':'), value...)
		return true
	})
	if !isObject {
		return nil, refuse("content", "must be an object")
	}
	if wrong != nil {
		return nil, wrong
	}
	for _, name := range f.required {
		if !filled[name] {
			return nil, refuse("content."+name, "is required")
		}
	}
	return append(out, '}'), nil
}

// check returns the rule that a value breaks; empty for none. Formats of texts are left to the server.
func (k *fieldKind) check(value []byte) (rule string) {
	switch k.Type {
	case typeText:
		return k.checkText(value)
	case typeBoolean:
		if string(value) != "true" && string(value) != "false" {
			return "must be true or false"
		}
		return ""
	case typeList:
		return k.checkList(value)
	}
	n, ok := number(value)
	switch least, most := k.Minimum, k.Maximum; {
	case !isNumber(value) || !ok:
		return "must be a number"
	case k.Type == typeInteger && n != float64(int64(n)):
		return "must be an integer"
	case least != nil && !between(least, value), most != nil && !between(value, most):
		return "must be within the bounds of the form"
	}
	return ""
}

// between reports whether one number is at most another.
func between(least, most []byte) bool {
	x, _ := number(least)
	y, _ := number(most)
	return x <= y
}

func (k *fieldKind) checkText(value []byte) (rule string) {
	text, ok := wire.Text(value)
	length := utf8.RuneCountInString(text)
	switch choices := k.choices(); {
	case !ok:
		return "must be a text"
	case len(choices) > 0 && !slices.Contains(choices, text):
		return "must be one of the choices"
	case k.MinLength != nil && length < *k.MinLength, k.MaxLength != nil && length > *k.MaxLength:
		return "must be of a length that the form allows"
	}
	return ""
}

func (k *fieldKind) checkList(value []byte) (rule string) {
	choices := make(map[string]bool)
	for _, choice := range k.choices() {
		choices[choice] = true
	}
	count, known := 0, true
	if !wire.Elements(value, func(value []byte) bool {
		text, ok := wire.Text(value)
		count, known = count+1, ok && choices[text] && count < maxChoices
		return known
	}) {
		return "must be a list"
	}
	switch {
	case !known:
		return "must be a list of the choices"
	case k.MinItems != nil && count < *k.MinItems, k.MaxItems != nil && count > *k.MaxItems:
		return "must have as many choices as the form allows"
	}
	return ""
}

// checkSampling returns a model's answer by its known members.
func checkSampling(members map[string]json.RawMessage) (json.RawMessage, error) {
	switch role := textOf(members["role"]); {
	case role != "assistant" && role != "user":
		return nil, refuse("role", "must be assistant or user")
	case textOf(members["model"]) == "" || len(members["model"]) > maxTitle:
		return nil, refuse("model", fmt.Sprintf("must be a text of at most %d bytes", maxTitle))
	case len(members["stopReason"]) > maxTitle || members["stopReason"] != nil && members["stopReason"][0] != '"':
		return nil, refuse("stopReason", fmt.Sprintf("must be a text of at most %d bytes", maxTitle))
	case !isContent(members["content"]):
		return nil, refuse("content", "must be a content with a type, or a list of them")
	}
	out := []byte{'{'}
	for _, name := range []string{"role", "content", "model", "stopReason"} {
		if value := members[name]; value != nil {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(append(append(out, '"'), name...), `":`...), value...)
		}
	}
	return append(out, '}'), nil
}

// isContent reports whether a value is a content with a type, or a list of such.
func isContent(value json.RawMessage) bool {
	if value == nil {
		return false
	}
	typed := func(block []byte) bool {
		kind := ""
		return wire.Members(block, func(name string, value []byte) bool {
			if name == "type" {
				kind, _ = wire.Text(value)
			}
			return kind == ""
		}) && kind != ""
	}
	if value[0] == '{' {
		return typed(value)
	}
	all := true
	return wire.Elements(value, func(block []byte) bool {
		all = typed(block)
		return all
	}) && all
}

// checkRoots returns a list of roots by their known members.
func checkRoots(roots json.RawMessage) (json.RawMessage, error) {
	out, count, valid := []byte(`{"roots":[`), 0, true
	isList := roots != nil && wire.Elements(roots, func(value []byte) bool {
		uri, name := "", json.RawMessage(nil)
		valid = wire.Members(value, func(member string, value []byte) bool {
			switch member {
			case "uri":
				uri, _ = wire.Text(value)
			case "name":
				name = value
			}
			return true
		}) && uri != "" && len(uri) <= maxURI && (name == nil || name[0] == '"' && len(name) <= maxTitle) && count < maxRoots
		if !valid {
			return false
		}
		if count++; count > 1 {
			out = append(out, ',')
		}
		out = jsontext.AppendText(append(out, `{"uri":`...), uri)
		if name != nil {
			out = append(append(out, `,"name":`...), name...)
		}
		out = append(out, '}')
		return true
	})
	if !isList || !valid {
		return nil, refuse("roots", fmt.Sprintf("must be a list of at most %d roots, each with a URI of at most %d bytes", maxRoots, maxURI))
	}
	return append(out, "]}"...), nil
}

// textOf returns the value of a text; empty for anything else.
func textOf(value json.RawMessage) string {
	text, _ := wire.Text(value)
	return text
}
