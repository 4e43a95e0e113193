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

// ImageSource fetches the images that a message names by https URL. Its errors are *apierr.Error, with a text that
// begins with the rule.
type ImageSource interface {
	// CheckURL refuses a URL that is not of a public host, without a lookup; CheckHost looks the name up too.
	CheckURL(raw string) error
	CheckHost(ctx context.Context, raw string) error
	Fetch(ctx context.Context, raw string) (imagefetch.Image, error)
}

// parallelFetches is how many images of one request are fetched at a time.
const parallelFetches = 4

const dataScheme = "data:"

// checkImages refuses images and documents that must not be sent to a provider, on whatever face they arrived: a URL of an internal
// host, which a self-hosted vendor could be made to fetch, and a data: URI of something other than an image.
func (e *Engine) checkImages(ctx context.Context, r *Request) error {
	for i, m := range r.Chat.Messages {
		for j, part := range m.Content {
			var err error
			switch url := part.ImageURL; {
			case part.File != nil:
				err = e.checkFile(part.File)
			case url == "":
			case strings.HasPrefix(url, dataScheme):
				_, err = imagefetch.CheckDataURI(url)
			case r.Route.Operation == provider.OperationVision:
				err = e.Images.CheckHost(ctx, url)
			default:
				err = e.Images.CheckURL(url)
			}
			if err != nil && part.File != nil {
				return within(fmt.Sprintf("messages[%d].content[%d].file", i, j), err)
			}
			if err != nil {
				return within(imageField(r, i, j, false), err)
			}
		}
	}
	return nil
}

// checkFile refuses a document at a URL of an internal host, which a self-hosted vendor could be made to fetch.
func (e *Engine) checkFile(f *provider.File) error {
	if _, _, ok := f.Data(); ok {
		return nil
	}
	return e.Images.CheckURL(f.URL)
}

// imageField returns the path of an image in the request as its caller wrote it, without the instruction that a
// localized request begins with.
func imageField(r *Request, message, part int, localized bool) string {
	url := r.Chat.Messages[message].Content[part].ImageURL
	switch isData := strings.HasPrefix(url, dataScheme); {
	case r.Route.Operation == provider.OperationVision && isData:
		return "image.base64"
	case r.Route.Operation == provider.OperationVision:
		return "image.url"
	}
	if localized {
		message--
	}
	return fmt.Sprintf("messages[%d].content[%d].image_url.url", message, part)
}

// within adds the field that an error is about.
func within(field string, err error) error {
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok {
		return err
	}
	named := *e
	named.Text = field + ": " + e.Text
	return &named
}

// fetches reports whether a candidate's vendor fetches images itself. The policy or the dialect may exclude it.
func (c *candidate) fetches() bool {
	if c.Lacks&policy.FeatureImageURLs != 0 {
		return false
	}
	f, ok := c.provider.(provider.ImageFetcher)
	return !ok || f.FetchesImages()
}

// namesImages reports whether messages name an image by https URL.
func namesImages(messages []provider.Message) bool {
	return slices.ContainsFunc(messages, func(m provider.Message) bool { return slices.ContainsFunc(m.Content, isNamed) })
}

func isNamed(part provider.Part) bool {
	return part.ImageURL != "" && !strings.HasPrefix(part.ImageURL, dataScheme)
}

// imageInliner fetches the images of one request, for candidates whose vendors fetch none.
type imageInliner struct {
	source  ImageSource
	request *Request
	// messages are the request's messages with the images inlined, once a candidate needed them.
	messages []provider.Message
}

// inline returns the request's messages with their images as data: URIs. They are fetched once a request. An
// *apierr.Error is a fault of the request.
func (l *imageInliner) inline(ctx context.Context) ([]provider.Message, error) {
	if l.messages != nil {
		return l.messages, nil
	}
	messages := slices.Clone(l.request.Chat.Messages)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelFetches)
	for i := range messages {
		messages[i].Content = slices.Clone(messages[i].Content)
		for j := range messages[i].Content {
			part := &messages[i].Content[j]
			if !isNamed(*part) {
				continue
			}
			group.Go(panics.Guard(func() error {
				image, err := l.source.Fetch(ctx, part.ImageURL)
				if err != nil {
					return within(imageField(l.request, i, j, l.request.Locale != ""), err)
				}
				part.ImageURL = image.DataURI()
				return nil
			}))
		}
	}
	if err := group.Wait(); err != nil {
		return nil, fetchFailed(err)
	}
	if err := boundImages(messages); err != nil {
		return nil, err
	}
	l.messages = messages
	return messages, nil
}

// fetchFailed returns an error of the attempt where the image is not at fault: the attempt's time ended before the
// vendor was called.
func fetchFailed(err error) error {
	if _, ok := errors.AsType[*apierr.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*panics.Error](err); ok {
		return apierr.Internal(err)
	}
	text := "the image could not be fetched in time"
	if errors.Is(err, memory.ErrFull) {
		text = memory.ErrFull.Error()
	}
	return blameless{&provider.Error{Class: apierr.ClassTransient, Text: text, Cause: err}}
}

// boundImages refuses a request whose images exceed what vendors accept, and what this process can hold.
func boundImages(messages []provider.Message) error {
	size := 0
	for _, m := range messages {
		for _, part := range m.Content {
			size += len(part.ImageURL)
		}
	}
	if limit := imagefetch.MaxBytes / 3 * 4; size > limit+1024 {
		return apierr.New(apierr.KindInvalid, imagefetch.ReasonImageInvalid,
			fmt.Sprintf("messages: the images are together larger than %d bytes", imagefetch.MaxBytes))
	}
	return nil
}
