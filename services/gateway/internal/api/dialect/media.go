package dialect

import (
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// mediaDepth is how many levels of arrays and objects are searched for URLs. The deepest known is Jina's and vLLM's
// documents[0].content[0].image_url.url.
const mediaDepth = 8

// mediaFields are the fields in which the APIs of relayed calls take the URL of an image, a video, a recording or a
// document. Sources: OpenAI API reference, "Create moderation" and "Create image edit"; Jina and vLLM documentation,
// "Rerank".
var mediaFields = map[string]bool{
	"audio": true, "audio_url": true, "file_url": true, "image": true, "image[]": true, "image_url": true, "images": true, "mask": true,
	"url": true, "video": true, "video_url": true,
}

// mediaOfBody returns the URLs in a JSON object that a vendor would fetch.
func mediaOfBody(body []byte) (found []provider.Media) {
	search(gjson.ParseBytes(body), "", "", mediaDepth, &found)
	return found
}

// mediaOfForm returns the URLs in a form's fields that a vendor would fetch.
func mediaOfForm(parts []provider.FormPart) (found []provider.Media) {
	for _, p := range parts {
		if p.FileName == "" && mediaFields[p.Name] && isURL(string(p.Data)) {
			found = append(found, provider.Media{Field: p.Name, URL: string(p.Data)})
		}
	}
	return found
}

// search appends the URLs in a value. path is the value's path, and name the innermost field that it belongs to.
func search(value gjson.Result, path, name string, depth int, found *[]provider.Media) {
	switch {
	case value.Type == gjson.String:
		if mediaFields[name] && isURL(value.Str) {
			*found = append(*found, provider.Media{Field: path, URL: value.Str})
		}
	case depth == 0:
	case value.IsArray():
		i := 0
		value.ForEach(func(_, element gjson.Result) bool {
			if mediaFields[name] || element.Type == gjson.JSON {
				search(element, At(path, i), name, depth-1, found)
			}
			i++
			return true
		})
	case value.IsObject():
		value.ForEach(func(key, member gjson.Result) bool {
			if mediaFields[key.Str] || member.Type == gjson.JSON {
				search(member, join(path, key.Str), key.Str, depth-1, found)
			}
			return true
		})
	}
}

// maxName is how many bytes of a field's name are in a path: each element of a list repeats its path.
const maxName = 64

// join returns the path of a field.
func join(path, name string) string {
	name = strings.ToValidUTF8(name[:min(len(name), maxName)], "")
	if path == "" {
		return name
	}
	return path + "." + name
}

// isURL reports whether a text may be read as a URL other than a data: URI. Base64, the other form of a medium, has no
// colon.
func isURL(text string) bool {
	scheme, _, ok := strings.Cut(strings.TrimSpace(text), ":")
	return ok && !strings.EqualFold(scheme, "data")
}
