package inference

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// reading is a provider that fetches images and documents.
type reading struct{ streaming }

func (reading) FetchesDocument(string) bool { return true }

// A provider that takes documents by their bytes alone gets them inlined, one that fetches them gets the URL. Each is
// fetched once, and images stay with a provider that fetches those.
func TestDocumentsAreInlined(t *testing.T) {
	for _, stream := range []bool{false, true} {
		steps := failing(apierr.ClassServerError, 500)
		first, second := &script{name: "a", steps: steps}, &script{name: "b", steps: steps}
		third := &script{name: "c", answer: good, steps: []step{text("yes"), end(good.Usage)}}
		b := setup(t, nil, first, second, third)
		providers := b.Fleet().Providers
		providers["b"], providers["c"] = blind{streaming{second}}, reading{streaming{third}}
		source := &images{}
		b.Images = source
		r := looking(goodURL)
		content := &r.Chat.Messages[len(r.Chat.Messages)-1].Content
		*content = append(*content, provider.Part{File: &provider.File{Name: "a.pdf", URL: goodDocument}})
		if _, err := serve(t, b, r, stream); err != nil {
			t.Fatal(err)
		}
		sent := func(s *script) []string {
			parts := s.chat.Messages[len(s.chat.Messages)-1].Content
			return []string{parts[1].ImageURL, parts[2].File.Name, parts[2].File.URL}
		}
		const inlined = "data:application/pdf;base64,JVBERi0="
		for s, want := range map[*script][]string{
			first: {goodURL, "a.pdf", inlined}, second: {goodData, "a.pdf", inlined}, third: {goodURL, "a.pdf", goodDocument},
		} {
			if diff := cmp.Diff(want, sent(s)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", s.name, diff)
			}
		}
		if slices.Sort(source.fetched); !slices.Equal(source.fetched, []string{goodDocument, goodURL}) {
			t.Errorf("fetched %v, want each once", source.fetched)
		}
	}
}

// A body that a provider takes as it came keeps the URL of a document, unless the provider fetches nothing.
func TestWhatIsInlined(t *testing.T) {
	r := looking(goodURL)
	documents := request()
	documents.Chat.Messages = append(documents.Chat.Messages, provider.Message{Role: provider.RoleUser, Content: []provider.Part{{File: &provider.File{URL: goodDocument}}}})
	s := streaming{&script{name: "a"}}
	for _, c := range []struct {
		name     string
		request  *Request
		provider provider.Provider
		native   bool
		want     byURL
	}{
		{"an image", r, s, false, byURL{}},
		{"an image, at one that fetches nothing", r, blind{s}, true, byURL{images: true}},
		{"a document", documents, s, false, byURL{documents: true}},
		{"a document as it came", documents, s, true, byURL{}},
		{"a document as it came, at one that fetches nothing", documents, blind{s}, true, byURL{documents: true}},
		{"a document, at one that fetches it", documents, reading{s}, false, byURL{}},
		{"bytes", looking(goodData), blind{s}, false, byURL{}},
	} {
		request := *c.request
		request.Chat.Native = &provider.Native{Dialect: "openai"}
		x := &execution{admitted: admitted{request: &request}}
		got := x.inlines(&candidate{Candidate: routing.Candidate{Native: c.native}, provider: c.provider})
		if got.images != c.want.images || got.documents != c.want.documents {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// An error of an image or a document names its field as the caller's form has it.
func TestFieldsOfParts(t *testing.T) {
	for _, c := range []struct {
		part        provider.Part
		text, field string
	}{
		{provider.Part{File: &provider.File{URL: "https://inner/"}}, "messages[1].content[0].file: is not allowed", "messages[1].content[0].file"},
		{provider.Part{File: &provider.File{URL: "https://inner/"}, Field: "input[3].content[0].file_url"}, "input[3].content[0].file_url: is not allowed", "input[3].content[0].file_url"},
		{provider.Part{File: &provider.File{URL: "https://gone/"}, Field: "input[3].content[0].file_url"}, "input[3].content[0].file_url: is not there", "input[3].content[0].file_url"},
		{provider.Part{ImageURL: "https://inner/", Field: "input[3].content[0].image_url"}, "input[3].content[0].image_url: is not allowed", "input[3].content[0].image_url"},
	} {
		a := &script{name: "a", answer: good}
		b := setup(t, nil, a)
		b.Images = &images{}
		r := request()
		r.Chat.Messages = append(r.Chat.Messages, provider.Message{Role: provider.RoleUser, Content: []provider.Part{c.part}})
		_, err := b.Chat(t.Context(), r)
		e := apierr.From(err)
		if calls, _ := a.count(); e.Kind != apierr.KindInvalid || !strings.HasPrefix(e.Text, c.text) || e.Field() != c.field || calls != 0 {
			t.Errorf("%+v: %q with the field %q after %d calls, want %q with %q", c.part, e.Text, e.Field(), calls, c.text, c.field)
		}
	}
}
