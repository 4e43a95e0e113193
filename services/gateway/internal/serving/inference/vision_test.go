package inference

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/imagefetch"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// blind is a provider that fetches no images.
type blind struct{ streaming }

func (blind) FetchesImages() bool { return false }

func looking(urls ...string) *Request {
	r := request()
	content := []provider.Part{{Text: "what is it"}}
	for _, url := range urls {
		content = append(content, provider.Part{ImageURL: url, Detail: "low"})
	}
	r.Chat.Messages = append(r.Chat.Messages, provider.Message{Role: provider.RoleUser, Content: content})
	return r
}

var goodData = "data:image/png;base64," + pngText

// A provider that can't fetch gets images in the message, one that can the URL;
// the request stays as it was, and is fetched once however many are tried.
func TestImagesAreInlined(t *testing.T) {
	for _, stream := range []bool{false, true} {
		steps := failing(apierr.ClassServerError, 500)
		first, second := &script{name: "a", steps: steps}, &script{name: "b", steps: steps}
		third := &script{name: "c", answer: good, steps: []step{text("yes"), end(good.Usage)}}
		b := setup(t, nil, first, second, third)
		providers := b.Fleet().Providers
		providers["a"], providers["b"] = blind{streaming{first}}, blind{streaming{second}}
		source := &images{}
		b.Images = source
		r := looking(goodURL, goodData)
		r.Locale = "fr"
		if _, err := serve(t, b, r, stream); err != nil {
			t.Fatal(err)
		}
		sent := func(s *script) (urls []string) {
			for _, m := range s.chat.Messages {
				for _, part := range m.Content {
					if part.ImageURL != "" {
						urls = append(urls, part.ImageURL+" "+part.Detail)
					}
				}
			}
			return urls
		}
		inlined := []string{goodData + " low", goodData + " low"}
		if diff := cmp.Diff(inlined, sent(first)); diff != "" {
			t.Errorf("first (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(inlined, sent(second)); diff != "" {
			t.Errorf("second (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{goodURL + " low", goodData + " low"}, sent(third)); diff != "" {
			t.Errorf("third (-want +got):\n%s", diff)
		}
		if !slices.Equal(source.fetched, []string{goodURL}) {
			t.Errorf("fetched %v, want once", source.fetched)
		}
	}
}

// A body in its caller's own words goes only where its URLs can.
func TestNativeBodyWithImages(t *testing.T) {
	for _, c := range []struct {
		name, url, dialect string
		fetches, native    bool
	}{
		{"a vendor that fetches", goodURL, "", true, true},
		{"a vendor that doesn't", goodURL, "", false, false},
		{"nothing to fetch", goodData, "", false, true},
		{"a body that only its dialect carries", goodURL, "openai", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &script{name: "a", answer: good}
			b := setup(t, nil, a)
			if !c.fetches {
				b.Fleet().Providers["a"] = blind{streaming{a}}
			}
			b.Images = &images{}
			r := looking(c.url)
			r.Chat.Native, r.Route.Needs.Dialect = &provider.Native{Dialect: "openai"}, c.dialect
			if _, err := b.Chat(t.Context(), r); err != nil || (a.chat.Native != nil) != c.native || (r.Chat.Native == nil) {
				t.Errorf("%v, sent %+v, native wanted: %v", err, a.chat.Native, c.native)
			}
		})
	}
}

// A bad image is the caller's error: no provider is called, nothing is billed, and the
// error names the field as the caller wrote it.
func TestBadImagesAreRefused(t *testing.T) {
	text := base64.StdEncoding.EncodeToString([]byte("hello, I am no image"))
	vision := func(url string) *Request {
		r := looking(url)
		r.Chat.Messages = r.Chat.Messages[1:]
		r.Route.Operation = provider.OperationVision
		return r
	}
	localized := looking("https://images.example/gone")
	localized.Locale = "fr"
	for _, c := range []struct {
		name   string
		r      *Request
		reason apierr.Reason
		text   string
		asked  bool // at a provider that fetches itself
	}{
		{"inner URL in a chat", looking("https://inner/"), imagefetch.ReasonTargetNotAllowed, "messages[1].content[1].image_url.url: is not allowed", false},
		{"inner URL of vision", vision("https://inner/"), imagefetch.ReasonTargetNotAllowed, "image.url: is not allowed", false},
		{"data that is no image in a chat", looking(goodURL, "data:image/png;base64,"+text), imagefetch.ReasonImageInvalid, "messages[1].content[2].image_url.url: is not a JPEG", false},
		{"data that is no image of vision", vision("data:image/png;base64," + text), imagefetch.ReasonImageInvalid, "image.base64: is not a JPEG", false},
		{"not there", looking("https://images.example/gone"), imagefetch.ReasonImageInvalid, "messages[1].content[1].image_url.url: is not there", true},
		{"not there, with an instruction put first", localized, imagefetch.ReasonImageInvalid, "messages[1].content[1].image_url.url: is not there", true},
		{"not there of vision", vision("https://images.example/gone"), imagefetch.ReasonImageInvalid, "image.url: is not there", true},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(c.name+map[bool]string{true: "/stream", false: ""}[stream], func(t *testing.T) {
				a, spare := &script{name: "a", answer: good}, &script{name: "b", answer: good}
				b := setup(t, nil, a, spare)
				b.Fleet().Providers["a"] = blind{streaming{a}}
				b.Images = &images{}
				r := *c.r
				_, err := serve(t, b, &r, stream)
				e := refused(t, err, 400, c.reason, apierr.ClassPolicy)
				first, _ := a.count()
				second, _ := spare.count()
				if !strings.HasPrefix(e.Text, c.text) || first+second != 0 || len(b.ledger.entries) != 0 {
					t.Errorf("%q after %d calls and %d entries, want %q", e.Text, first+second, len(b.ledger.entries), c.text)
				}
				// With a provider that fetches itself only what all refuse is refused.
				b = setup(t, nil, &script{name: "a", answer: good, steps: []step{{event: provider.Event{Text: "yes", FinishReason: "stop"}}}})
				b.Images = &images{}
				r = *c.r
				if _, err := serve(t, b, &r, stream); (err == nil) != c.asked {
					t.Errorf("error %v, want one: %v", err, !c.asked)
				}
			})
		}
	}
}

// Vision looks names up before any provider is called; a chat leaves that to the dial.
func TestVisionLooksNamesUp(t *testing.T) {
	for _, c := range []struct {
		operation provider.Operation
		want      string
	}{{provider.OperationVision, goodURL + " by name"}, {provider.OperationChat, goodURL}} {
		b := setup(t, nil, &script{name: "a", answer: good})
		source := &images{}
		b.Images = source
		r := looking(goodURL)
		r.Route.Operation = c.operation
		completion, err := b.Chat(t.Context(), r)
		if err != nil || !slices.Equal(source.checked, []string{c.want}) || len(source.fetched) != 0 {
			t.Errorf("%s: %v, checked %v, fetched %v", c.operation, err, source.checked, source.fetched)
		}
		if entry := b.ledger.entries[0]; entry.Operation != string(c.operation) || completion.Report.Model != "a-1" {
			t.Errorf("entry %+v", entry)
		}
	}
}

// slowImages never come.
type slowImages struct{ images }

func (*slowImages) Fetch(ctx context.Context, _ string) (imagefetch.Image, error) {
	<-ctx.Done()
	return imagefetch.Image{}, context.Cause(ctx)
}

// An image that doesn't come in the attempt's time is that attempt's failure.
func TestSlowImageFailsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &script{name: "a", answer: good}
		b := setup(t, nil, a, &script{name: "b", answer: good})
		b.Fleet().Providers["a"] = blind{streaming{a}}
		b.Images = &slowImages{}
		start := time.Now()
		completion, err := b.Chat(t.Context(), looking(goodURL))
		if err != nil || completion.Report.Provider != "b" {
			t.Errorf("served by %q, %v, want b", completion.Report.Provider, err)
		}
		if calls, _ := a.count(); calls != 0 {
			t.Errorf("%d calls of a, want none", calls)
		}
		if took := time.Since(start); took != clocks.Answer {
			t.Errorf("served after %v, want the answer clock's %v", took, clocks.Answer)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Chat(ctx, looking(goodURL)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want an end with the caller", err)
		}
	})
}

// largeImages are as large as one may be.
type largeImages struct{ images }

func (*largeImages) Fetch(context.Context, string) (imagefetch.Image, error) {
	return imagefetch.Image{Type: "image/png", Data: make([]byte, imagefetch.MaxBytes)}, nil
}

func TestInlinedImagesAreBounded(t *testing.T) {
	for _, c := range []struct {
		urls []string
		fits bool
	}{{[]string{goodURL}, true}, {[]string{goodURL, goodURL + "?2"}, false}} {
		a := &script{name: "a", answer: good}
		b := setup(t, nil, a)
		b.Fleet().Providers["a"] = blind{streaming{a}}
		b.Images = &largeImages{}
		_, err := b.Chat(t.Context(), looking(c.urls...))
		if c.fits != (err == nil) {
			t.Errorf("%d images: %v", len(c.urls), err)
		}
		if !c.fits {
			refused(t, err, 400, imagefetch.ReasonImageInvalid, apierr.ClassPolicy)
		}
	}
}

// faultyImages is a source of images with a bug.
type faultyImages struct{ images }

func (*faultyImages) Fetch(context.Context, string) (imagefetch.Image, error) {
	panic("bug in an image")
}

// A panic while images are fetched ends the request with an error, and gives back its
// permit; the vendor was not called, and is not to blame.
func TestPanicWhileImagesAreFetched(t *testing.T) {
	for _, stream := range []bool{false, true} {
		a := &script{name: "a", answer: good, steps: []step{text("yes"), end(good.Usage)}}
		b := setup(t, nil, a)
		b.Fleet().Providers["a"] = blind{streaming{a}}
		b.Images = &faultyImages{}
		_, err := serve(t, b, looking(goodURL), stream)
		if e := apierr.From(err); err == nil || e.Kind != apierr.KindInternal {
			t.Errorf("%v, want an internal error", err)
		}
		for _, s := range b.Health.Snapshot() {
			if s.InFlight != 0 {
				t.Errorf("%d permits are still out", s.InFlight)
			}
		}
	}
}
