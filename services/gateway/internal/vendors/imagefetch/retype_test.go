package imagefetch

import (
	"encoding/base64"
	"strings"
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestRetype(t *testing.T) {
	picture := base64.StdEncoding.EncodeToString(jpeg)
	for name, c := range map[string]struct{ body, want string }{
		"a URI": {
			`{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/jpg;base64,JPEG"}}]}], "n":1.0}`,
			`{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,JPEG"}}]}], "n":1.0}`,
		},
		"a URI in place of an object": {
			`[{"image_url":"data:image/png;base64,JPEG"},{"image_url":"data:;base64,JPEG"}]`,
			`[{"image_url":"data:image/jpeg;base64,JPEG"},{"image_url":"data:image/jpeg;base64,JPEG"}]`,
		},
		"a type before its data": {
			`{"source":{"type":"base64","media_type":"image/png","data":"JPEG"}}`, `{"source":{"type":"base64","media_type":"image/jpeg","data":"JPEG"}}`,
		},
		"types behind their data": {
			`[{"data":"JPEG","mimeType":"image/jpg"},{"data":"JPEG","mime_type":"image/gif"}]`,
			`[{"data":"JPEG","mimeType":"image/jpeg"},{"data":"JPEG","mime_type":"image/jpeg"}]`,
		},
		"escaped slashes": {
			`[{"url":"data:image\/jpg;base64,\/9j\/4AAQ"},{"data":"\/9j\/4AAQ","mime_type":"image\/jpg"},{"url":"data:image\/png;base64,\u002F9j\/4AAQ\u002B"}]`,
			`[{"url":"data:image/jpeg;base64,\/9j\/4AAQ"},{"data":"\/9j\/4AAQ","mime_type":"image/jpeg"},{"url":"data:image/jpeg;base64,\u002F9j\/4AAQ\u002B"}]`,
		},
		"true types with escapes":   {`[{"url":"data:image\/jpeg;base64,\/9j\/4AAQ"},{"data":"\/9j\/4AAQ","mimeType":"image\/jpeg"}]`, ""},
		"true types":                {`{"url":"data:image/jpeg;base64,JPEG","data":"JPEG","mimeType":"image/jpeg"}`, ""},
		"a text that looks like it": {`{"text":"data:image/png;base64,JPEG"}`, ""},
		"no image":                  {`{"mimeType":"application/pdf","data":"JVBERi0=","url":"data:image/png;base64,AAAA"}`, ""},
		"members of other kinds":    {`{"mimeType":1,"data":{"data":null},"url":["data:"],"image_url":"https://a.example"}`, ""},
	} {
		body := strings.ReplaceAll(c.body, "JPEG", picture)
		want := strings.ReplaceAll(c.want, "JPEG", picture)
		if want == "" {
			want = body
		}
		if got := string(Retype([]byte(body))); got != want {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
	}
}

func TestRetypeGrowsLinearly(t *testing.T) {
	image := `{"url":"data:image/png;base64,` + base64.StdEncoding.EncodeToString(jpeg) + `"},`
	inputs := []growth.Input{growth.Repeat("images", "[", image, "1]"), growth.Repeat("an image with escapes", `{"url":"data:image\/png;base64,\/9j\/4AAQ`, `\/`, `"}`), growth.Repeat("text", `{"text":"`, "abcd", `"}`)}
	growth.Linear(t, growth.EachText(inputs, func(body string) { _ = Retype([]byte(body)) })...)
}
