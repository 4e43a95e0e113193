package inference

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/imagefetch"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// ImageSource fetches the images and the documents that a message names by https URL. Its errors are *apierr.Error, with a text that
// begins with the rule.
type ImageSource interface {
	// CheckURL refuses a URL that is not of a public host, without a lookup; CheckHost looks the name up too.
	CheckURL(raw string) error
	CheckHost(ctx context.Context, raw string) error
	Fetch(ctx context.Context, raw string) (imagefetch.Image, error)
	// FetchDocument fetches a document in the same way.
	FetchDocument(ctx context.Context, raw string) (imagefetch.Document, error)
}

const dataScheme = "data:"

// checkMedia refuses images and documents that must not be sent to a provider, on whatever face they arrived: a URL of
// an internal host, which a self-hosted vendor could be made to fetch, and a data: URI of something other than an
// image. If an image's bytes show another type than the request claims, it sets the true type, also in a native body,
// because vendors refuse a wrong type.
func (e *Engine) checkMedia(ctx context.Context, r *Request) error {
	if r.Relay != nil {
		return e.checkRelayed(r.Relay.Media)
	}
	retyped := false
	for i, m := range r.Chat.Messages {
		for j, part := range m.Content {
			var err error
			switch url := part.ImageURL; {
			case part.File != nil:
				err = e.checkFile(part.File)
			case url == "":
			case strings.HasPrefix(url, dataScheme):
				var checked string
				if checked, _, err = imagefetch.CheckDataURI(url); err == nil && checked != url {
					r.Chat.Messages[i].Content[j].ImageURL, retyped = checked, true
				}
			case r.Route.Operation == provider.OperationVision:
				err = e.Images.CheckHost(ctx, url)
			default:
				err = e.Images.CheckURL(url)
			}
			if err != nil {
				return within(fieldOf(r, i, j, false), err)
			}
		}
	}
	if native := r.Chat.Native; retyped && native != nil {
		typed := *native
		typed.Body = imagefetch.Retype(native.Body)
		r.Chat.Native = &typed
	}
	return nil
}

// checkRelayed refuses URLs of internal hosts in a relayed call.
func (e *Engine) checkRelayed(media []provider.Media) error {
	for _, m := range media {
		if err := e.Images.CheckURL(m.URL); err != nil {
			return within(m.Field, err)
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

// fieldOf returns the path of an image or a document in the request as its caller wrote it, without the instruction that a
// localized request begins with.
func fieldOf(r *Request, message, part int, localized bool) string {
	p := &r.Chat.Messages[message].Content[part]
	if localized {
		message--
	}
	switch isData := strings.HasPrefix(p.ImageURL, dataScheme); {
	case p.Field != "":
		return p.Field
	case r.Route.Operation == provider.OperationVision && isData:
		return "image.base64"
	case r.Route.Operation == provider.OperationVision:
		return "image.url"
	case p.File != nil:
		return fmt.Sprintf("messages[%d].content[%d].file", message, part)
	}
	return fmt.Sprintf("messages[%d].content[%d].image_url.url", message, part)
}

// within returns an error of package apierr as the error of a field.
func within(field string, err error) error {
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok {
		return err
	}
	named := *e
	named.Text, named.At = field+": "+e.Text, field
	return &named
}

// inside returns an error of a field as the error of the same field of an enclosing object: "url" becomes "body.url".
func inside(object string, err error) error {
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok || e.At == "" {
		return err
	}
	named := *e
	named.Text, named.At = object+"."+e.Text, object+"."+e.At
	return &named
}
