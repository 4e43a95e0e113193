package policy

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/net/http/httpguts"

	"switchyard.dev/services/platform/screen"
)

// Connection is how a provider is reached.
type Connection struct {
	// Headers are sent with every call, by name.
	Headers map[string]HeaderValue `yaml:"headers"`
	// Proxy is the way out to this provider; the zero Proxy is the service's own way.
	Proxy Proxy `yaml:"proxy"`
	// CAFile holds the CA certificates (PEM) that are trusted instead of the machine's.
	CAFile string `yaml:"ca_file"`
}

// HeaderValue is a header's value, or the file that it is read from.
type HeaderValue struct {
	Value string `yaml:"-"`
	File  string `yaml:"file"`
}

// UnmarshalYAML reads a value, or a mapping with a file.
func (h *HeaderValue) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		h.Value = node.Value
		return nil
	}
	type plain HeaderValue
	return strictNode(node, (*plain)(h))
}

// Proxy is an HTTP proxy for the calls to a provider.
type Proxy struct {
	// Direct ignores the service's proxy.
	Direct bool `yaml:"-"`
	// URL is the proxy's, without user and password; these are in CredentialsFile, as user:password.
	URL             string `yaml:"url"`
	CredentialsFile string `yaml:"credentials_file"`
}

// UnmarshalYAML reads a URL, "direct", or a mapping.
func (p *Proxy) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*p = Proxy{Direct: node.Value == "direct"}
		if !p.Direct {
			p.URL = node.Value
		}
		return nil
	}
	type plain Proxy
	return strictNode(node, (*plain)(p))
}

const (
	maxHeaders     = 32
	maxHeaderValue = 4 << 10
)

// fixedHeaders belong to HTTP or to the adapters: another value would break the call.
var fixedHeaders = []string{
	"Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host", "Keep-Alive", "Te",
	"Trailer", "Transfer-Encoding", "Upgrade",
}

func (c *Connection) check() error {
	if len(c.Headers) > maxHeaders {
		return fmt.Errorf("headers: %d are more than %d", len(c.Headers), maxHeaders)
	}
	seen := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		canonical := http.CanonicalHeaderKey(name)
		err := checkHeader(canonical, c.Headers[name])
		if seen[canonical] {
			err = errors.New("appears twice")
		}
		if err != nil {
			return fmt.Errorf("headers.%s: %w", screen.Quote(name), err)
		}
		seen[canonical] = true
	}
	switch {
	case c.Proxy.URL == "" && c.Proxy.CredentialsFile != "":
		return errors.New("proxy.url: is missing")
	case strings.Contains(c.Proxy.URL, "@"):
		return errors.New("proxy.url: holds a user or a password, which belong in credentials_file")
	}
	return nil
}

func checkHeader(name string, h HeaderValue) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return errors.New("not a valid header name")
	case slices.Contains(fixedHeaders, name), strings.HasPrefix(name, "Proxy-"):
		return errors.New("can't be set")
	case (h.Value == "") == (h.File == ""):
		return errors.New("want a value, or a file")
	case len(h.Value) > maxHeaderValue || !httpguts.ValidHeaderFieldValue(h.Value):
		return fmt.Errorf("want at most %d printable characters", maxHeaderValue)
	case name == "Authorization" && h.Value != "", screen.LooksLikeKey(h.Value):
		return errors.New("looks like a key: put it into a file")
	}
	return nil
}

// resolve makes the paths of files absolute.
func (c *Connection) resolve(absolute func(string) string) {
	for name, h := range c.Headers {
		h.File = absolute(h.File)
		c.Headers[name] = h
	}
	c.Proxy.CredentialsFile, c.CAFile = absolute(c.Proxy.CredentialsFile), absolute(c.CAFile)
}
