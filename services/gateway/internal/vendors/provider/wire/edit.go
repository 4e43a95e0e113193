package wire

import "github.com/tidwall/gjson"

// Editor changes parts of a valid JSON text and leaves the rest byte for byte as
// it is, in one pass: what it is given to change has to come in the text's order.
type Editor struct {
	text string
	out  []byte
	at   int // what is before is in out, or left out
}

// NewEditor edits the JSON of a value.
func NewEditor(value gjson.Result) (e *Editor, root gjson.Result) {
	root = gjson.Parse(value.Raw)
	return &Editor{text: root.Raw, out: make([]byte, 0, len(root.Raw)+len(root.Raw)/16)}, root
}

// Replace puts JSON in place of a value of the text.
func (e *Editor) Replace(value gjson.Result, by string) {
	e.cut(value.Index, value.Index+len(value.Raw))
	e.out = append(e.out, by...)
}

// Members goes through the members of an object of the text; anything else has
// none. A member that visit reports true for is left out, with its comma. visit may
// change what is in the others.
func (e *Editor) Members(object gjson.Result, visit func(name string, value gjson.Result) bool) {
	if !object.IsObject() {
		return
	}
	// kept is behind the last member that stays, dropped behind one that doesn't
	// while none before it does; -1 for none.
	kept, dropped := -1, -1
	object.ForEach(func(key, value gjson.Result) bool {
		if dropped >= 0 { // The comma behind it goes along.
			e.cut(dropped, key.Index)
			dropped = -1
		}
		end := value.Index + len(value.Raw)
		switch {
		case !visit(key.Str, value):
			kept = end
		case kept >= 0: // The comma before it goes along.
			e.cut(kept, end)
			kept = end
		default:
			e.cut(key.Index, end)
			dropped = end
		}
		return true
	})
}

// cut leaves out what is between two places.
func (e *Editor) cut(from, to int) {
	e.out = append(e.out, e.text[e.at:from]...)
	e.at = to
}

// End gives the text with its changes.
func (e *Editor) End() string { return string(append(e.out, e.text[e.at:]...)) }
