package dialect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestMediaOfBody(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       []provider.Media
	}{
		{"a text", `{"input":"https://a.example","prompt":["https://a.example"]}`, nil},
		{"base64 and data: URIs", `{"image":"iVBORw0KGgo=","images":["data:image/png;base64,iVBORw0KGgo="],"mask":" DATA:,"}`, nil},
		{"fields", `{"image":"http://a","mask":{"image_url":"FTP://b"}}`, []provider.Media{{Field: "image", URL: "http://a"}, {Field: "mask.image_url", URL: "FTP://b"}}},
		{"lists", `{"images":["x","file:///c"],"input":["text",{"image_url":{"url":" https://d"}}]}`, []provider.Media{
			{Field: "images[1]", URL: "file:///c"}, {Field: "input[1].image_url.url", URL: " https://d"},
		}},
		{"escapes", `{"im\u0061ge":"http\u003a//e"}`, []provider.Media{{Field: "image", URL: "http://e"}}},
		{"a long name", `{"` + strings.Repeat("ä", 40) + `":{"url":"a:b"}}`, []provider.Media{{Field: strings.Repeat("ä", 32) + ".url", URL: "a:b"}}},
		{"both of a name twice", `{"url":"a:b","url":"c:d"}`, []provider.Media{{Field: "url", URL: "a:b"}, {Field: "url", URL: "c:d"}}},
	} {
		if diff := cmp.Diff(c.want, mediaOfBody([]byte(c.body))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestMediaOfForm(t *testing.T) {
	parts := []provider.FormPart{
		{Name: "prompt", Data: []byte("https://a")}, {Name: "image", FileName: "a.png", Data: []byte("https://b")}, {Name: "image[]", Data: []byte("https://c")},
	}
	if diff := cmp.Diff([]provider.Media{{Field: "image[]", URL: "https://c"}}, mediaOfForm(parts)); diff != "" {
		t.Error(diff)
	}
}

func TestMediaGrowsLinearly(t *testing.T) {
	inputs := growth.Around(`{"image":`, growth.ValidJSON, "}")
	inputs = append(inputs, growth.Repeat("URLs", `{"images":["a:b"`, `,"a:b"`, "]}"), growth.Repeat("a long name", `{"`, "x", `":{"url":"a:b"}}`))
	growth.Linear(t, growth.Each(inputs, func(body []byte) { mediaOfBody(body) })...)
}
