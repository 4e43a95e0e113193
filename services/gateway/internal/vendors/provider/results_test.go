package provider_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// What a vendor refuses in results follows them in a turn of the user; documents that are texts stay in their result.
func TestAttachmentsAreMoved(t *testing.T) {
	text := func(s string) provider.Part { return provider.Part{Text: s} }
	image := provider.Part{ImageURL: "https://images.example/a.png"}
	pdf := provider.Part{File: &provider.File{Name: "a.pdf", URL: "data:application/pdf;base64,JVBERi0="}}
	unnamed := provider.Part{File: &provider.File{URL: "https://files.example/b.pdf"}}
	note := provider.Part{File: &provider.File{Name: "n.txt", URL: "data:text/plain;base64,aGk="}, Cache: provider.CacheLong}
	call := func(ids ...string) provider.Message {
		m := provider.Message{Role: provider.RoleAssistant}
		for _, id := range ids {
			m.ToolCalls = append(m.ToolCalls, provider.ToolCall{ID: id, Name: "f"})
		}
		return m
	}
	result := func(id string, content ...provider.Part) provider.Message {
		return provider.Message{Role: provider.RoleTool, ToolCallID: id, Content: content}
	}
	user := func(content ...provider.Part) provider.Message {
		return provider.Message{Role: provider.RoleUser, Content: content}
	}
	const images, texts, documents, all = provider.AttachedImages, provider.AttachedTexts, provider.AttachedDocuments, provider.AttachedAll
	type list = []provider.Message
	for name, c := range map[string]struct {
		refused     provider.Attachments
		given, want list // want is nil if given stays as it is.
	}{
		"anything is taken":  {0, list{user(text("u")), call("1"), result("1", image, pdf, note)}, nil},
		"other kinds":        {documents, list{user(text("u")), call("1"), result("1", image, note)}, nil},
		"texts":              {all, list{user(text("u")), call("1"), result("1", text("r"))}, nil},
		"those of the user":  {all, list{user(image, pdf, note), call("1"), result("1", text("r")), user(image)}, nil},
		"an image":           {images, list{user(text("u")), call("1"), result("1", text("r"), image, pdf)}, list{user(text("u")), call("1"), result("1", text("r"), text("The image follows below."), pdf), user(image)}},
		"a document":         {documents, list{user(text("u")), call("1"), result("1", pdf, unnamed)}, list{user(text("u")), call("1"), result("1", text("The document a.pdf follows below."), text("The document follows below.")), user(pdf, unnamed)}},
		"a text":             {texts, list{user(text("u")), call("1"), result("1", note, pdf)}, list{user(text("u")), call("1"), result("1", provider.Part{Text: "n.txt\n\nhi", Cache: provider.CacheLong}, pdf)}},
		"behind all results": {all, list{user(text("u")), call("1", "2"), result("1", image), result("2", pdf), user(text("v"))}, list{user(text("u")), call("1", "2"), result("1", text("The image follows below.")), result("2", text("The document a.pdf follows below.")), user(image, pdf), user(text("v"))}},
		"of two turns":       {images, list{user(text("u")), call("1"), result("1", image), call("2"), result("2", text("r")), call("3"), result("3", image)}, list{user(text("u")), call("1"), result("1", text("The image follows below.")), user(image), call("2"), result("2", text("r")), call("3"), result("3", text("The image follows below.")), user(image)}},
	} {
		terms := provider.Terms{RefusedInResults: c.refused}
		if c.want == nil {
			c.want = c.given
		}
		fitted, err := terms.Fit(&provider.Chat{Messages: c.given})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, fitted.Messages); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
