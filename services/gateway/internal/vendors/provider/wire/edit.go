package wire

import "github.com/tidwall/gjson"

// Editor changes parts of a valid JSON text and leaves the rest byte for byte as it is, in one pass: changes must be
// made in the order of the text.
type Editor struct {
	text string
	out  []byte
	at   int // text before at is in out, or left out
}

// NewEditor returns an editor for the JSON of a value.
func NewEditor(value gjson.Result) (e *Editor, root gjson.Result) {
	root = gjson.Parse(value.Raw)
	return &Editor{text: root.Raw, out: make([]byte, 0, len(root.Raw)+len(root.Raw)/16)}, root
}

// Replace replaces a value of the text by JSON.
func (e *Editor) Replace(value gjson.Result, by string) {
	e.cut(value.Index, value.Index+len(value.Raw))
	e.out = append(e.out, by...)
}

// Members visits the members of an object of the text; any other value has none. A member for which visit returns true
// is removed, with its comma. visit may change the values of the others.
func (e *Editor) Members(object gjson.Result, visit func(name string, value gjson.Result) bool) {
	if !object.IsObject() {
		return
	}
	// kept is the offset behind the last member that stays. dropped is the offset of a removed member with no member
	// kept before it. Both are -1 for none.
	kept, dropped := -1, -1
	object.ForEach(func(key, value gjson.Result) bool {
		if dropped >= 0 { // The comma behind it is removed, too.
			e.cut(dropped, key.Index)
			dropped = -1
		}
		end := value.Index + len(value.Raw)
		switch {
		case !visit(key.Str, value):
			kept = end
		case kept >= 0: // The comma before it is removed, too.
			e.cut(kept, end)
			kept = end
		default:
			e.cut(key.Index, end)
			dropped = end
		}
		return true
	})
}

// cut removes the text between two offsets.
func (e *Editor) cut(from, to int) {
	e.out = append(e.out, e.text[e.at:from]...)
	e.at = to
}

// End returns the text with its changes.
func (e *Editor) End() string { return string(append(e.out, e.text[e.at:]...)) }
