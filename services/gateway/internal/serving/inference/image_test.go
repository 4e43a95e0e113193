package inference

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/imagefetch"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// maker is a provider with scripted images.
type maker struct {
	name   string
	images provider.Images
	err    error
	asked  []provider.ImageRequest
	waits  bool // until its caller cancels
}

func (m *maker) Name() string { return m.name }

func (m *maker) MakeImages(ctx context.Context, _ provider.Credential, request *provider.ImageRequest) (*provider.Images, error) {
	m.asked = append(m.asked, *request)
	provider.ReceiptOf(ctx).SetSent()
	if m.waits {
		<-ctx.Done()
		return nil, &provider.Error{Class: apierr.ClassTransient, Text: "the call was ended", Cause: context.Cause(ctx)}
	}
	made := m.images
	made.Images = append([]provider.Image(nil), m.images.Images...)
	return &made, m.err
}

func drawRequest(delivery string) *Request {
	r := request()
	r.Route.Operation, r.Chat = provider.OperationImages, provider.Chat{}
	r.ImageRequest = provider.ImageRequest{Prompt: "12345678", Count: 1, Size: "1024x1024", Delivery: delivery}
	return r
}

const pngHead = "\x89PNG\r\n\x1a\n"

var pngText = base64.StdEncoding.EncodeToString([]byte(pngHead))

// images is a source of one image that refuses every other URL.
type images struct {
	checked []string
	fetched []string
}

const (
	goodURL      = "https://images.example/a.png"
	goodDocument = "https://documents.example/a.pdf"
)

var errNotThere = apierr.New(apierr.KindInvalid, imagefetch.ReasonImageInvalid, "is not there")

func (i *images) CheckURL(raw string) error {
	i.checked = append(i.checked, raw)
	if strings.Contains(raw, "inner") {
		return apierr.New(apierr.KindInvalid, imagefetch.ReasonTargetNotAllowed, "is not allowed (address): no")
	}
	return nil
}

func (i *images) CheckHost(_ context.Context, raw string) error {
	err := i.CheckURL(raw)
	i.checked[len(i.checked)-1] += " by name"
	return err
}

func (i *images) Fetch(ctx context.Context, raw string) (imagefetch.Image, error) {
	i.fetched = append(i.fetched, raw)
	switch {
	case ctx.Err() != nil:
		return imagefetch.Image{}, context.Cause(ctx)
	case raw != goodURL:
		return imagefetch.Image{}, errNotThere
	}
	return imagefetch.Image{Type: "image/png", Data: []byte(pngHead)}, nil
}

func (i *images) FetchDocument(_ context.Context, raw string) (imagefetch.Document, error) {
	i.fetched = append(i.fetched, raw)
	if raw != goodDocument {
		return imagefetch.Document{}, errNotThere
	}
	return imagefetch.Document{Type: "application/pdf", Data: []byte("%PDF-")}, nil
}

func TestMakeImages(t *testing.T) {
	a := &maker{name: "a", images: provider.Images{
		Images: []provider.Image{{Base64: pngText, MediaType: "image/png", RevisedPrompt: "better"}},
		Usage:  &provider.Usage{Input: 10, ImageOutput: 1000, Images: 1},
	}}
	b := chain(t, "a", [2]string{"a-1", "a-1"}, a, nil)
	r := drawRequest("")
	r.ImageRequest.Count = 2
	got, err := b.MakeImages(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	want := []provider.Image{{Base64: pngText, MediaType: "image/png", RevisedPrompt: "better"}}
	if diff := cmp.Diff(want, got.Images); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	if r := got.Report; r.Prompt != 10 || r.Completion != 1000 {
		t.Errorf("%d tokens of prompt, %d of completion; want 10 and 1000", r.Prompt, r.Completion)
	}
	if got.Report.Provider != "a" {
		t.Errorf("made by %q, want a", got.Report.Provider)
	}
	asked := provider.ImageRequest{Model: "a-1-up", Prompt: "12345678", Count: 2, Size: "1024x1024"}
	if diff := cmp.Diff([]provider.ImageRequest{asked}, a.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if entry := b.ledger.entries[0]; entry.Operation != "images" || entry.Usage.Images != 1 || entry.State != ledger.StateReported {
		t.Errorf("entry %+v", entry)
	}
}

func TestImagesAreDeliveredAsAskedFor(t *testing.T) {
	bytes := provider.Image{Base64: pngText, MediaType: "image/png"}
	untyped := provider.Image{Base64: pngText}
	link := provider.Image{URL: goodURL}
	data := provider.Image{URL: "data:image/png;base64," + pngText}
	for _, c := range []struct {
		name, delivery string
		made, want     provider.Image
		fetches        int
	}{
		{"bytes, no wish", "", bytes, bytes, 0},
		{"bytes of an unnamed type", "", untyped, bytes, 0},
		{"URL, no wish", "", link, link, 0},
		{"bytes as bytes", DeliverBase64, bytes, bytes, 0},
		{"URL as URL", DeliverURL, link, link, 0},
		{"bytes as URL", DeliverURL, bytes, data, 0},
		{"bytes of an unnamed type as URL", DeliverURL, untyped, data, 0},
		{"URL as bytes", DeliverBase64, link, bytes, 1},
		{"data: URI as bytes", DeliverBase64, data, bytes, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &maker{name: "a", images: provider.Images{Images: []provider.Image{c.made, c.made}}}
			b := chain(t, "a", [2]string{"m", "m"}, a, nil)
			source := &images{}
			b.Images = source
			got, err := b.MakeImages(t.Context(), drawRequest(c.delivery))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]provider.Image{c.want, c.want}, got.Images); diff != "" || len(source.fetched) != 2*c.fetches {
				t.Errorf("fetched %v (-want +got):\n%s", source.fetched, diff)
			}
		})
	}
}

func TestMakeImagesFailsOver(t *testing.T) {
	good := provider.Images{Images: []provider.Image{{Base64: pngText, MediaType: "image/png"}}}
	for name, a := range map[string]*maker{
		"it fails":                  {name: "a", err: &provider.Error{Class: apierr.ClassServerError, Status: 500}},
		"it makes none":             {name: "a"},
		"it makes an empty one":     {name: "a", images: provider.Images{Images: []provider.Image{{}}}},
		"its URL leads nowhere":     {name: "a", images: provider.Images{Images: []provider.Image{{URL: "https://images.example/gone"}}}},
		"it can't do that size":     {name: "a", err: provider.Unsupported("size", "must be 256x256")},
		"its second one is missing": {name: "a", images: provider.Images{Images: []provider.Image{good.Images[0], {}}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := chain(t, "a", [2]string{"m", "n"}, a, &maker{name: "b", images: good})
			b.Images = &images{}
			got, err := b.MakeImages(t.Context(), drawRequest(DeliverBase64))
			if err != nil {
				t.Fatal(err)
			}
			checkServed(t, ledger.Report{Provider: "b", RequestedProvider: "a", Substituted: true}, got.Report)
			if n := len(b.ledger.entries); n != 1 {
				t.Errorf("%d rows, want one", n)
			}
		})
	}
	t.Run("the prompt is refused", func(t *testing.T) {
		spare := &maker{name: "b", images: good}
		b := chain(t, "a", [2]string{"m", "n"}, &maker{name: "a", err: &provider.Error{Class: apierr.ClassContentPolicy, Status: 400}}, spare)
		_, err := b.MakeImages(t.Context(), drawRequest(""))
		refused(t, err, 400, ReasonContentPolicy, apierr.ClassContentPolicy)
		if len(spare.asked) != 0 {
			t.Error("another provider was asked")
		}
	})
	t.Run("no provider makes that size", func(t *testing.T) {
		wrong := provider.Unsupported("size", "must be 256x256")
		b := chain(t, "a", [2]string{"m", "n"}, &maker{name: "a", err: wrong}, &maker{name: "b", err: wrong})
		_, err := b.MakeImages(t.Context(), drawRequest(""))
		if e := refused(t, err, 400, apierr.ReasonInvalidRequest, apierr.ClassPolicy); e.Field() != "size" {
			t.Errorf("%q names the field %q, want size", e.Text, e.Field())
		}
	})
	t.Run("nobody has images", func(t *testing.T) {
		b := chain(t, "a", [2]string{"m", "n"}, streaming{&script{name: "a"}}, streaming{&script{name: "b"}})
		_, err := b.MakeImages(t.Context(), drawRequest(""))
		refused(t, err, 400, apierr.ReasonInvalidRequest, apierr.ClassPolicy)
	})
}

func TestImagesUsage(t *testing.T) {
	made := []provider.Image{{URL: goodURL}, {URL: goodURL}, {URL: goodURL}}
	for _, c := range []struct {
		name      string
		usage     *provider.Usage
		want      provider.Usage
		estimated bool
	}{
		{"pieces and tokens", &provider.Usage{Input: 1, ImageOutput: 2, Images: 3}, provider.Usage{Input: 1, ImageOutput: 2, Images: 3}, false},
		{"tokens only", &provider.Usage{Input: 1, ImageOutput: 2}, provider.Usage{Input: 1, ImageOutput: 2, Images: 3}, false},
		{"nothing", nil, provider.Usage{Input: 2, ImageOutput: 3 * imageTokens, Images: 3}, true},
		{"pieces of a model that is priced by tokens", &provider.Usage{Images: 3}, provider.Usage{Input: 2, ImageOutput: 3 * imageTokens, Images: 3}, true},
		{"no output of a model that is priced by tokens", &provider.Usage{Input: 1, Images: 3}, provider.Usage{Input: 1, ImageOutput: 3 * imageTokens, Images: 3}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := chain(t, "a", [2]string{"a-1", "a-1"}, &maker{name: "a", images: provider.Images{Images: made, Usage: c.usage}}, nil)
			r := drawRequest("")
			r.ImageRequest.Count = len(made)
			got, err := b.MakeImages(t.Context(), r)
			if err != nil || got.Report.Estimated != c.estimated {
				t.Fatalf("%+v, %v", got, err)
			}
			if diff := cmp.Diff(c.want, b.ledger.entries[0].Usage); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

// A vendor that echoes its key in an image's URL can't pass it on.
func TestUndeliveredImageKeepsTheKey(t *testing.T) {
	a := &maker{name: "a", images: provider.Images{Images: []provider.Image{{URL: "https://images.example/?key=" + canary}}}}
	b := chain(t, "a", [2]string{"m", "m"}, a, nil)
	b.Images = &images{}
	r := drawRequest(DeliverBase64)
	r.Route.Substitution = false
	_, err := b.MakeImages(t.Context(), r)
	e := refused(t, err, 502, ReasonProviderFailed, "")
	if strings.Contains(e.Error()+b.log.String(), canary) || !errors.Is(err, e) {
		t.Errorf("the key is in %v or the log", e)
	}
}
