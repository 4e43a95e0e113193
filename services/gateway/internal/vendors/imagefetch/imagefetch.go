// Package imagefetch handles the images of requests: it fetches images that are named by URL, through the guard against
// server-side request forgery, and determines what counts as an image. It decodes no pixels, so that a small file that
// decompresses to a huge image does no harm. Documents are fetched in the same way. Package inference inlines images and
// documents with it, package api reads the type of bytes.
package imagefetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/fairshare"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/tunnel"
)

// Reasons of refused images and documents.
const (
	ReasonImageInvalid     apierr.Reason = "image_invalid"
	ReasonDocumentInvalid  apierr.Reason = "document_invalid"
	ReasonTargetNotAllowed apierr.Reason = "target_not_allowed"
)

const (
	// MaxBytes is the size of the largest image, and of the largest document that is fetched.
	MaxBytes = 20 << 20
	// maxRedirects is the largest number of redirects that are followed, each checked like the URL itself.
	maxRedirects = 3
	// maxFetches bounds the number of concurrent fetches; fetchShare is the percentage of them that one organization
	// may hold. Package memory bounds the memory that they take.
	maxFetches, fetchShare = 64, 25
	// fetchTime bounds a fetch, from the wait for a place to the last byte.
	fetchTime = 15 * time.Second
	// lookupTime bounds the early lookup of a name; the dial looks it up again.
	lookupTime = 500 * time.Millisecond
)

// ErrBusy is returned by a fetch that got no place in time. It says nothing about the URL.
var ErrBusy = errors.New("too many images and documents are being fetched at the moment")

// Options are the options of a Fetcher. The zero value is for production.
type Options struct {
	// AllowTargets are host:port pairs that the guard permits, and that may use plain http. For development.
	AllowTargets []string
	// DenyPrefixes are networks that are refused in addition to those that are not public.
	DenyPrefixes []netip.Prefix
	// Proxy is asked to connect to the addresses that the guard has checked; nil for none.
	Proxy *tunnel.Proxy
	// DialPrefixes are the networks into which connections are made without a proxy; none means all public ones.
	DialPrefixes []netip.Prefix
	// Resolver looks names up; nil means the machine's resolver.
	Resolver *net.Resolver
	// Transport bounds the steps of a fetch and configures which certificates are trusted.
	Transport netguard.TransportOptions
	// Time bounds a fetch; 0 means 15 s.
	Time time.Duration
}

// Fetcher fetches images and documents. Safe for concurrent use.
type Fetcher struct {
	guard  *netguard.Guard
	client *http.Client
	places *fairshare.Places
	time   time.Duration
}

// New returns a Fetcher, or an error if an allowed target is not host:port.
func New(o Options) (*Fetcher, error) {
	guard, err := netguard.New(netguard.Options{
		AllowTargets: o.AllowTargets, DenyPrefixes: o.DenyPrefixes, Proxy: o.Proxy, DialPrefixes: o.DialPrefixes, Resolver: o.Resolver,
	})
	if err != nil {
		return nil, fmt.Errorf("image fetcher: %w", err)
	}
	f := &Fetcher{guard: guard, places: fairshare.NewPlaces(maxFetches, fetchShare), time: cmp.Or(o.Time, fetchTime)}
	f.client = guard.Client(0, o.Transport) // Fetch bounds the time.
	f.client.CheckRedirect = f.redirect
	return f, nil
}

// Close closes idle connections.
func (f *Fetcher) Close() { f.client.CloseIdleConnections() }

// CheckURL returns an error if a URL is not that of a public address, without a lookup. Errors are *apierr.Error of
// kind 400 with the reason target_not_allowed.
func (f *Fetcher) CheckURL(raw string) error {
	_, err := f.read(raw)
	return err
}

// CheckHost does what CheckURL does, and also refuses a name that resolves to an address that is not public. A name
// that can't be resolved passes, and fails in Fetch.
func (f *Fetcher) CheckHost(ctx context.Context, raw string) error {
	u, err := f.read(raw)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	return refused(f.guard.CheckHost(ctx, u))
}

func (f *Fetcher) read(raw string) (*url.URL, error) {
	u, err := f.guard.CheckSecureURL(raw)
	if err != nil {
		return nil, refused(err)
	}
	return u, nil
}

func (f *Fetcher) redirect(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errRedirects
	}
	next.Header.Del("Referer") // The caller's URL may hold a token.
	_, err := f.guard.CheckSecureURL(next.URL.String())
	return err
}

var errRedirects = errors.New("too many redirects")

// Fetch fetches an image. The type is determined by its bytes and not by the server's headers. Errors are *apierr.Error
// with a text that begins with the rule: 400 for a target that is not allowed, and for an image that can't be fetched.
// If ctx has ended, the error is its cause; if there is no memory for the image at the moment, it is memory.ErrFull; if
// no place gets free within the time of a fetch, it is ErrBusy. Places are shared by organization, which ctx's
// memory.Hold names.
func (f *Fetcher) Fetch(ctx context.Context, raw string) (Image, error) {
	got, err := f.fetch(ctx, raw, image)
	if err != nil {
		return Image{}, err
	}
	return identify(got.data)
}

// wanted is what is fetched: an image or a document.
type wanted struct {
	noun   string
	accept string
	reason apierr.Reason
}

var (
	image    = wanted{"image", "image/jpeg, image/png, image/webp, image/gif", ReasonImageInvalid}
	document = wanted{"document", "application/pdf, text/*, */*;q=0.5", ReasonDocumentInvalid}
)

// received is the answer of a server.
type received struct {
	data     []byte
	declared string // the media type that the server says
}

func (f *Fetcher) fetch(ctx context.Context, raw string, what wanted) (received, error) {
	u, err := f.read(raw)
	if err != nil {
		return received{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, f.time)
	defer cancel()
	release, err := f.places.Acquire(bounded, memory.FromContext(ctx).Organization())
	if err != nil {
		if ctx.Err() != nil {
			return received{}, context.Cause(ctx)
		}
		return received{}, ErrBusy
	}
	defer release()
	got, err := f.get(bounded, u.String(), what)
	switch { // Time limits first: the rest of a canceled read may look like the end of a body.
	case ctx.Err() != nil:
		return received{}, context.Cause(ctx)
	case bounded.Err() != nil:
		return received{}, what.invalid(what.late(), err)
	}
	return got, err
}

func (f *Fetcher) get(ctx context.Context, raw string, what wanted) (got received, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, raw, http.NoBody)
	if err != nil {
		return got, what.invalid("the URL can't be requested", nil)
	}
	request.Header.Set("Accept", what.accept)
	request.Header.Set("User-Agent", "switchyard-gateway")
	response, err := f.client.Do(request)
	if err != nil {
		return got, what.failed(err)
	}
	defer response.Body.Close() //nolint:errcheck // Reading returns the error that matters.
	switch {
	case response.StatusCode != http.StatusOK:
		return got, what.invalid(fmt.Sprintf("the %s's server answered with status %d", what.noun, response.StatusCode), nil)
	case response.ContentLength > MaxBytes:
		return got, what.tooLarge()
	}
	hold := memory.FromContext(ctx)
	data, err := memory.ReadAll(hold, response.Body, response.ContentLength, MaxBytes)
	if err == nil {
		err = hold.Charge(len(data)) // For the request that it is put into.
	}
	switch {
	case errors.Is(err, memory.ErrTooLarge):
		return got, what.tooLarge()
	case errors.Is(err, memory.ErrFull):
		return got, err
	case err != nil:
		return got, what.failed(err)
	}
	return received{data, response.Header.Get("Content-Type")}, nil
}

// refused converts the guard's refusal into the caller's error; nil stays nil.
func refused(err error) error {
	if err == nil {
		return nil
	}
	refusal, ok := errors.AsType[*netguard.Refusal](err)
	if !ok {
		return image.invalid("the URL can't be checked", err)
	}
	e := apierr.New(apierr.KindInvalid, ReasonTargetNotAllowed, "is not allowed ("+refusal.Rule+"): "+refusal.Text)
	if refusal.Addr.IsValid() {
		return e.Wrap(fmt.Errorf("%w: %s", refusal, refusal.Addr))
	}
	return e
}

// failed converts an error of the connection. The error's own text may contain internal addresses, so it is only in the
// cause; the URL, which may be signed, is left out there, too.
func (w wanted) failed(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	if _, ok := errors.AsType[*netguard.Refusal](err); ok {
		return refused(err)
	}
	text := "the " + w.noun + "'s server could not be reached"
	switch timeout, ok := errors.AsType[net.Error](err); {
	case errors.Is(err, errRedirects):
		text = "the " + w.noun + "'s server redirects too often"
	case ok && timeout.Timeout():
		text = w.late()
	}
	return w.invalid(text, err)
}

func (w wanted) late() string { return "the " + w.noun + " did not arrive in time" }

func (w wanted) tooLarge() error {
	return w.invalid(fmt.Sprintf("the %s is larger than %d bytes", w.noun, MaxBytes), nil)
}

func (w wanted) invalid(text string, cause error) *apierr.Error {
	e := apierr.New(apierr.KindInvalid, w.reason, text)
	if cause != nil {
		e = e.Wrap(cause)
	}
	return e
}
