package inference

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/imagefetch"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/panics"
)

// parallelFetches is how many images and documents of one request are fetched at a time.
const parallelFetches = 4

// byURL are kinds of parts of messages that are named by https URL.
type byURL struct {
	images, documents bool
	// fetches reports whether the vendor itself fetches the document at url, so that it is not of these kinds; nil for
	// none.
	fetches func(url string) bool
}

func (k byURL) any() bool { return k.images || k.documents }

// holds reports whether a part is of one of the kinds.
func (k byURL) holds(part *provider.Part) bool {
	if part.File != nil {
		return k.documents && !strings.HasPrefix(part.File.URL, dataScheme) && (k.fetches == nil || !k.fetches(part.File.URL))
	}
	return k.images && part.ImageURL != "" && !strings.HasPrefix(part.ImageURL, dataScheme)
}

// in returns the kinds that messages have.
func (k byURL) in(messages []provider.Message) byURL {
	found := byURL{fetches: k.fetches}
	for i := range messages {
		for j := range messages[i].Content {
			part := &messages[i].Content[j]
			if k.holds(part) {
				found.images = found.images || part.File == nil
				found.documents = found.documents || part.File != nil
			}
		}
	}
	return found
}

// leaves returns what a candidate's vendor doesn't fetch itself. The policy or the dialect may exclude it.
func (c *candidate) leaves() byURL {
	if c.Lacks&policy.FeatureImageURLs != 0 {
		return byURL{images: true, documents: true}
	}
	images, asked := c.provider.(provider.ImageFetcher)
	leaves := byURL{images: asked && !images.FetchesImages(), documents: true}
	if fetcher, ok := c.provider.(provider.DocumentFetcher); ok {
		leaves.fetches = fetcher.FetchesDocument
	}
	return leaves
}

// inlines returns the kinds of which a candidate gets the bytes instead of the URLs. A body that goes out as it came keeps
// the URLs of documents if its vendor fetches images: its own form has a place for both.
func (x *execution) inlines(c *candidate) byURL {
	leaves := c.leaves()
	if c.Native && x.request.Chat.Native != nil && !leaves.images {
		return byURL{}
	}
	return leaves.in(x.request.Chat.Messages)
}

// inliner fetches the images and the documents of one request, for candidates whose vendors don't.
type inliner struct {
	source  ImageSource
	request *Request
	// fetched are the data: URIs of what a candidate needed, by its place in the messages.
	fetched map[place]string
}

// place is that of a part in the messages of a request.
type place struct{ message, part int }

// inline returns the request's messages with parts as data: URIs. Each is fetched once a request. An *apierr.Error is a
// fault of the request.
func (l *inliner) inline(ctx context.Context, kinds byURL) ([]provider.Message, error) {
	if err := l.fetch(ctx, l.missing(kinds)); err != nil {
		return nil, fetchFailed(err)
	}
	messages := slices.Clone(l.request.Chat.Messages)
	for i := range messages {
		messages[i].Content = slices.Clone(messages[i].Content)
		for j := range messages[i].Content {
			if part := &messages[i].Content[j]; kinds.holds(part) {
				inlined(part, l.fetched[place{i, j}])
			}
		}
	}
	return messages, boundInlined(messages)
}

// inlined puts a data: URI into a part.
func inlined(part *provider.Part, uri string) {
	if part.File == nil {
		part.ImageURL = uri
		return
	}
	part.File = &provider.File{Name: part.File.Name, URL: uri}
}

// missing returns the places of parts that have not been fetched yet.
func (l *inliner) missing(kinds byURL) (missing []place) {
	for i := range l.request.Chat.Messages {
		content := l.request.Chat.Messages[i].Content
		for j := range content {
			if _, has := l.fetched[place{i, j}]; !has && kinds.holds(&content[j]) {
				missing = append(missing, place{i, j})
			}
		}
	}
	return missing
}

func (l *inliner) fetch(ctx context.Context, places []place) error {
	uris := make([]string, len(places))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelFetches)
	for i, at := range places {
		group.Go(panics.Guard(func() (err error) {
			uris[i], err = l.get(ctx, &l.request.Chat.Messages[at.message].Content[at.part])
			return within(fieldOf(l.request, at.message, at.part, l.request.Locale != ""), err)
		}))
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if l.fetched == nil {
		l.fetched = make(map[place]string, len(places))
	}
	for i, at := range places {
		l.fetched[at] = uris[i]
	}
	return nil
}

// get returns a part's image or document as a data: URI.
func (l *inliner) get(ctx context.Context, part *provider.Part) (string, error) {
	if part.File != nil {
		document, err := l.source.FetchDocument(ctx, part.File.URL)
		return document.DataURI(), err
	}
	image, err := l.source.Fetch(ctx, part.ImageURL)
	return image.DataURI(), err
}

// fetchFailed returns an error of the attempt where what was to be fetched is not at fault: the attempt's time ended
// before the vendor was called.
func fetchFailed(err error) error {
	if _, ok := errors.AsType[*apierr.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*panics.Error](err); ok {
		return apierr.Internal(err)
	}
	text := "the image or the document could not be fetched in time"
	if errors.Is(err, memory.ErrFull) || errors.Is(err, imagefetch.ErrBusy) {
		text = err.Error()
	}
	return blameless{&provider.Error{Class: apierr.ClassTransient, Text: text, Cause: err}}
}

// boundInlined refuses a request whose images and documents exceed what vendors accept, and what this process can hold.
func boundInlined(messages []provider.Message) error {
	size := 0
	for _, m := range messages {
		for _, part := range m.Content {
			size += len(part.ImageURL)
			if part.File != nil {
				size += len(part.File.URL)
			}
		}
	}
	if limit := imagefetch.MaxBytes / 3 * 4; size > limit+1024 {
		return apierr.New(apierr.KindInvalid, imagefetch.ReasonImageInvalid,
			fmt.Sprintf("messages: the images and documents are together larger than %d bytes", imagefetch.MaxBytes))
	}
	return nil
}
