package openai

import (
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// inputWriter writes the items of an input as one place gets them: with its own encrypted content as the vendor wrote it,
// without reasoning of other places, and without ids that the gateway made. The items behind a compaction of another place
// stand for it.
type inputWriter struct {
	at  origin
	out []byte
	// behind is the number of bytes of items that have come out of compactions.
	behind int
	err    error
}

// input returns an input as a place gets it. Without anything of the gateway's it stays byte for byte.
func (at origin) input(value gjson.Result) (string, error) {
	if !value.IsArray() || !strings.Contains(value.Raw, OwnState) && !strings.Contains(value.Raw, OwnID) && !strings.Contains(value.Raw, `"reasoning"`) {
		return value.Raw, nil
	}
	w := inputWriter{at: at, out: []byte{'['}}
	each(value, w.item)
	return string(append(w.out, ']')), w.err
}

func (w *inputWriter) item(item gjson.Result) {
	if items, ok := w.elsewhere(item); ok {
		each(items, w.one) // A compaction among them has none behind it: expanded has seen to that.
		return
	}
	w.one(item)
}

// elsewhere returns the items behind a compaction that another place made; false for any other item.
func (w *inputWriter) elsewhere(item gjson.Result) (items gjson.Result, ok bool) {
	if item.Get("type").Str != typeCompaction {
		return items, false
	}
	sealed, ok := OpenSealed(item.Get("encrypted_content").Str)
	if !ok || w.at.made(sealed) {
		return items, false
	}
	text, ok := sealed.Behind()
	if w.behind += len(text); !ok || w.behind > 2*MaxBehind {
		w.err = provider.Unsupported("input", "holds a compaction that only the account which made it can read")
	}
	return gjson.ParseBytes(text), true
}

// one writes an item, unless it is reasoning that the place can't read.
func (w *inputWriter) one(item gjson.Result) {
	raw, keep := w.at.opened(item)
	switch {
	case keep:
	case item.Get("type").Str == typeCompaction:
		w.err = provider.Unsupported("input", "holds a compaction that only the account which made it can read")
		return
	default:
		return
	}
	if len(w.out) > 1 {
		w.out = append(w.out, ',')
	}
	edit, root := wire.NewEditor(gjson.Parse(raw))
	edit.Members(root, func(name string, value gjson.Result) bool {
		_, rest, found := strings.Cut(value.Str, OwnID)
		return name == "id" && found && rest != ""
	})
	w.out = append(w.out, edit.End()...)
}

// opened returns an item as the place gets it: its own as the vendor wrote it. Not kept is what only another place can
// read, and reasoning of which only the id is left, as the vendor has stored nothing.
func (at origin) opened(item gjson.Result) (raw string, keep bool) {
	content := item.Get("encrypted_content").Str
	if !strings.HasPrefix(content, OwnState) {
		return item.Raw, content != "" || item.Get("type").Str != typeReasoning || item.Get("content.0").Exists()
	}
	sealed, ok := OpenSealed(content)
	if !ok || !at.made(sealed) {
		return "", false
	}
	raw, err := sjson.Set(item.Raw, "encrypted_content", sealed.Content)
	return raw, err == nil
}
