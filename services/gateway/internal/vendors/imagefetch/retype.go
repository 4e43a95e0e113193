package imagefetch

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// correction replaces the bytes from from to to with by.
type correction struct {
	from, to int
	by       string
}

// Retype returns a request's body with the true media types of its images: in data: URIs, and in the member that gives
// the type of base64 data next to it. All other bytes stay the same. It knows the forms of all faces. body must be
// valid JSON.
func Retype(body []byte) []byte {
	var found []correction
	visit(gjson.ParseBytes(body), &found)
	slices.SortFunc(found, func(a, b correction) int { return a.from - b.from })
	out, at := make([]byte, 0, len(body)+len(found)), 0
	for _, c := range found {
		out = append(append(out, body[at:c.from]...), c.by...)
		at = c.to
	}
	return append(out, body[at:]...)
}

// visit collects the corrections in a value and in all its members.
func visit(value gjson.Result, found *[]correction) {
	if !value.IsObject() && !value.IsArray() {
		return
	}
	var kind, data gjson.Result
	value.ForEach(func(name, member gjson.Result) bool {
		switch name.Str {
		case "url", "image_url":
			uri(member, found)
		case "media_type", "mimeType", "mime_type":
			kind = member
		case "data":
			data = member
		}
		visit(member, found)
		return true
	})
	if kind.Type != gjson.String || data.Type != gjson.String {
		return
	}
	if actual := TypeOfBase64(data.Str); actual != "" && actual != kind.Str {
		*found = append(*found, correction{kind.Index, kind.Index + len(kind.Raw), `"` + actual + `"`})
	}
}

// uri collects the correction of the type that a data: URI claims. It decides by the text, since the JSON may have
// escapes ("image\/jpg"), and corrects the JSON before the data.
func uri(member gjson.Result, found *[]correction) {
	const mark = ";base64,"
	head, text, _ := strings.Cut(member.Str, mark)
	claimed, isData := strings.CutPrefix(head, "data:")
	raw, _, isBase64 := strings.Cut(member.Raw, mark)
	if !isData || !isBase64 {
		return
	}
	if actual := TypeOfBase64(text); actual != "" && actual != claimed {
		*found = append(*found, correction{member.Index, member.Index + len(raw), `"data:` + actual})
	}
}
