package webpush

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
)

// KnownHosts are the push services of Chrome and its derivatives, Firefox, Safari and Edge. A name with "*." covers
// all names below it.
var KnownHosts = []string{"fcm.googleapis.com", "*.push.services.mozilla.com", "*.push.apple.com", "*.notify.windows.com"}

// Endpoint is the URL of a device at its push service. Anyone who knows it can push to the device, so it prints as
// its origin only.
type Endpoint struct {
	url    string
	origin string
}

// Hosts holds the push services that may be called.
type Hosts struct {
	names []string
	// development are host:port pairs that are allowed as they are.
	development []string
	check       func(raw string) (*url.URL, error)
}

// NewHosts allows the names and, for development, exact host:port pairs, also over http. check parses a URL and
// refuses invalid ones, as netguard.Guard.CheckURL does.
func NewHosts(names, development []string, check func(raw string) (*url.URL, error)) (Hosts, error) {
	lower := make([]string, len(names))
	for i, name := range names {
		lower[i] = strings.ToLower(name)
		if bare := strings.TrimPrefix(lower[i], "*."); !strings.Contains(bare, ".") || strings.ContainsAny(bare, "*:/ ") {
			return Hosts{}, fmt.Errorf("push host %q: want a host name, or one with *. before it", name)
		}
	}
	return Hosts{names: lower, development: development, check: check}, nil
}

// EndpointError names the rule that an endpoint violates.
type EndpointError struct{ Rule string }

func (e *EndpointError) Error() string { return "endpoint " + e.Rule }

// Parse parses an endpoint. Errors never repeat it.
func (h Hosts) Parse(raw string) (Endpoint, error) {
	u, err := h.check(raw)
	switch {
	case err != nil:
		return Endpoint{}, &EndpointError{"must be the URL of a push service"}
	case slices.Contains(h.development, u.Host):
	case u.Scheme != "https":
		return Endpoint{}, &EndpointError{"must be https"}
	case u.Port() != "":
		return Endpoint{}, &EndpointError{"must be on the port of https"}
	case !slices.ContainsFunc(h.names, func(name string) bool { return covers(name, u.Host) }):
		return Endpoint{}, &EndpointError{"must be on the host of a known push service"}
	}
	return Endpoint{url: u.String(), origin: u.Scheme + "://" + u.Host}, nil
}

// covers reports whether an allowed name equals the host, or with "*." is a parent of it.
func covers(name, host string) bool {
	if suffix, wild := strings.CutPrefix(name, "*"); wild {
		return len(host) > len(suffix) && strings.HasSuffix(host, suffix)
	}
	return name == host
}

// endpointOf parses a URL that Parse returned before.
func endpointOf(raw string) (Endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return Endpoint{}, &EndpointError{"can't be read"}
	}
	return Endpoint{url: raw, origin: u.Scheme + "://" + u.Host}, nil
}

// Origin returns scheme and host of the push service. It is not secret.
func (e Endpoint) Origin() string { return e.origin }

// Digest identifies the endpoint without revealing it.
func (e Endpoint) Digest() [sha256.Size]byte { return sha256.Sum256([]byte(e.url)) }

// Format prints the origin only, whatever the verb.
func (e Endpoint) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.origin) }

// windows reports whether the push service is WNS.
func (e Endpoint) windows() bool { return strings.HasSuffix(e.origin, ".notify.windows.com") }
