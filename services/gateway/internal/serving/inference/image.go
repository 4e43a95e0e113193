package inference

import (
	"context"
	"errors"
	"strings"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/imagefetch"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Forms of delivery of an image.
const (
	DeliverURL    = "url"
	DeliverBase64 = "b64_json"
)

// ImageResult is the answer to an ImageRequest.
type ImageResult struct {
	// Images are in the form that was asked for.
	Images []provider.Image
	Report ledger.Report
	Route  Route
}

// MakeImages generates images.
func (e *Engine) MakeImages(ctx context.Context, r *Request) (*ImageResult, error) {
	ctx, x, err := e.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	defer x.end(ctx)
	var images *provider.Images
	err = x.tryWhole(ctx, func(ctx context.Context, a *attempt) (err error) {
		images, err = x.draw(ctx, &a.candidate)
		return err
	})
	if err != nil {
		return nil, err
	}
	size := tally{usage: images.Usage, images: len(images.Images)}
	if size.usage != nil && size.usage.Images == 0 {
		counted := *size.usage
		counted.Images = int64(len(images.Images))
		size.usage = &counted
	}
	result := &ImageResult{Images: images.Images, Report: x.settle(ctx, ledger.OutcomeCompleted, size)}
	result.Route = x.route()
	x.record.answered(trace.Answer{Images: images.Images})
	return result, nil
}

func (x *execution) draw(ctx context.Context, c *candidate) (*provider.Images, error) {
	maker, ok := c.provider.(provider.ImageMaker)
	if !ok {
		return nil, incapable("images")
	}
	request := x.request.ImageRequest
	request.Model = c.Upstream
	images, err := maker.MakeImages(ctx, c.credential, &request)
	if err != nil {
		return nil, err
	}
	if len(images.Images) == 0 {
		return nil, malformed("no image")
	}
	for i := range images.Images {
		if err := x.engine.deliver(ctx, &images.Images[i], request.Delivery); err != nil {
			return nil, err
		}
	}
	return images, nil
}

// deliver converts an image to the form that was asked for. Bytes become a data: URI; a vendor's URL is fetched, since
// the image has been paid for.
func (e *Engine) deliver(ctx context.Context, image *provider.Image, form string) error {
	switch {
	case image.URL == "" && image.Base64 == "":
		return malformed("an image without URL and bytes")
	case image.Base64 != "" && image.MediaType == "":
		image.MediaType = imagefetch.TypeOfBase64(image.Base64)
	}
	switch {
	case form == DeliverURL && image.URL == "":
		*image = provider.Image{URL: imagefetch.DataURI(image.MediaType, image.Base64), RevisedPrompt: image.RevisedPrompt}
	case form == DeliverBase64 && image.Base64 == "":
		return e.download(ctx, image)
	}
	return nil
}

func (e *Engine) download(ctx context.Context, image *provider.Image) error {
	uri := image.URL
	if !strings.HasPrefix(uri, dataScheme) {
		fetched, err := e.Images.Fetch(ctx, uri)
		if err != nil {
			return undelivered(err)
		}
		uri = fetched.DataURI()
	}
	head, text, _ := strings.Cut(uri, ",")
	mediaType, _, _ := strings.Cut(strings.TrimPrefix(head, dataScheme), ";")
	*image = provider.Image{Base64: text, MediaType: mediaType, RevisedPrompt: image.RevisedPrompt}
	return nil
}

// undelivered returns the error of an image that can't be fetched from the vendor's URL. It is not the caller's fault,
// and does not count against the vendor, which has answered: the host of its images is another one.
func undelivered(err error) error {
	const text = "the image could not be fetched from the provider"
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return blameless{&provider.Error{Class: apierr.ClassServerError, Text: text + ": " + e.Text, Cause: e.Cause}}
	}
	return blameless{&provider.Error{Class: apierr.ClassServerError, Text: text, Cause: err}}
}
