package identity

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"switchyard.dev/services/platform/secret"
)

// Config is one identity: exactly one of its members is set. The zero Config is none.
type Config struct {
	AWS   *AWS   `yaml:"aws"`
	GCP   *GCP   `yaml:"gcp"`
	Azure *Azure `yaml:"azure"`
	OIDC  *OIDC  `yaml:"oidc"`
}

// kind is what the four members of a Config have in common.
type kind interface {
	// complete fills in what follows from the provider's base URL.
	complete(base *url.URL) error
	// check returns the first rule that is broken, with the name of its field.
	check() error
	// files returns the fields that hold paths.
	files() []*secret.File
	// subject names the identity; empty if only an exchange knows it.
	subject() string
	// secrets returns the secrets that are in the configuration itself: those of organizations.
	secrets() []secret.Value
}

// Kind returns "aws", "gcp", "azure" or "oidc"; "" if not exactly one of them is set.
func (c Config) Kind() string {
	name, _ := c.kind()
	return name
}

// IsZero reports whether no identity is configured.
func (c Config) IsZero() bool { return c == Config{} }

func (c Config) kind() (name string, of kind) {
	n := 0
	if c.AWS != nil {
		name, of, n = "aws", c.AWS, n+1
	}
	if c.GCP != nil {
		name, of, n = "gcp", c.GCP, n+1
	}
	if c.Azure != nil {
		name, of, n = "azure", c.Azure, n+1
	}
	if c.OIDC != nil {
		name, of, n = "oidc", c.OIDC, n+1
	}
	if n != 1 {
		return "", nil
	}
	return name, of
}

// clone returns a copy that can be changed.
func (c Config) clone() Config {
	return Config{AWS: copied(c.AWS), GCP: copied(c.GCP), Azure: copied(c.Azure), OIDC: copied(c.OIDC)}
}

func copied[T any](of *T) *T {
	if of == nil {
		return nil
	}
	clone := *of
	return &clone
}

// Complete returns the configuration with everything filled in that follows from the base URL of the provider it is for,
// with relative paths of files resolved in dir, and checked. An error names the field and the rule.
func (c Config) Complete(baseURL, dir string) (Config, error) {
	done := c.clone()
	name, of := done.kind()
	if of == nil {
		return Config{}, errors.New("want exactly one of aws, gcp, azure and oidc")
	}
	base, err := url.Parse(baseURL)
	if err != nil {
		return Config{}, errors.New("base_url: not a URL")
	}
	for _, file := range of.files() {
		if *file != "" && !filepath.IsAbs(string(*file)) {
			*file = secret.File(filepath.Join(dir, string(*file)))
		}
	}
	if err := of.complete(base); err != nil {
		return Config{}, fmt.Errorf("%s.%w", name, err)
	}
	if err := of.check(); err != nil {
		return Config{}, fmt.Errorf("%s.%w", name, err)
	}
	return done, nil
}

// key identifies an identity by its whole configuration.
type key [sha256.Size]byte

// key returns the key of a complete configuration that belongs to owner.
func (c Config) key(owner string) (k key, err error) {
	text, err := json.Marshal(c)
	if err != nil {
		return k, fmt.Errorf("encode the identity: %w", err)
	}
	all := fmt.Appendf(nil, "%s\x00%s", owner, text)
	if _, of := c.kind(); of != nil {
		for _, value := range of.secrets() {
			all = fmt.Appendf(all, "\x00%d:%s", len(value.Reveal()), value.Reveal())
		}
	}
	return sha256.Sum256(all), nil
}

// subject returns the name of the identity: its kind, and what the kind says.
func (c Config) subject(granted string) string {
	name, of := c.kind()
	if granted != "" {
		return name + ":" + granted
	}
	return name + ":" + of.subject()
}

// broken returns the error of a field that breaks a rule.
func broken(field, rule string) error { return fmt.Errorf("%s: %s", field, rule) }

// together returns an error if only one of two fields is set.
func together(first string, a bool, second string, b bool) error {
	switch {
	case a && !b:
		return broken(second, "must be set with "+first)
	case b && !a:
		return broken(first, "must be set with "+second)
	}
	return nil
}

// checkURL returns an error for the URL of a token server that is neither https nor on this machine. An empty URL is
// valid.
func checkURL(field, text string) error {
	return checkSecure(field, text, IsLoopback, "must be https, except on this machine")
}

// checkMetadataURL is checkURL for a server that a cloud has in each machine, which answers without TLS.
func checkMetadataURL(field, text string) error {
	return checkSecure(field, text, IsLocal, "must be https, except on this machine and at the addresses of metadata servers")
}

// checkSecure returns an error with the rule for a URL that is neither https nor at a host where plain HTTP is allowed.
func checkSecure(field, text string, allowed func(host string) bool, rule string) error {
	if text == "" {
		return nil
	}
	at, err := absolute(text)
	switch {
	case err != nil:
		return broken(field, err.Error())
	case at.Scheme != "https" && !allowed(at.Hostname()):
		return broken(field, rule)
	}
	return nil
}

func absolute(text string) (*url.URL, error) {
	at, err := url.Parse(text)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http":
		return nil, errors.New("must be an absolute http or https URL")
	case at.User != nil || at.RawQuery != "" || at.Fragment != "":
		return nil, errors.New("must have no user, query and fragment")
	}
	return at, nil
}

// checkOrigin returns an error for an address with a path, where the library that calls it has paths of its own.
func checkOrigin(field, text string) error {
	if at, err := url.Parse(text); err == nil && strings.Trim(at.Path, "/") != "" {
		return broken(field, "must have no path")
	}
	return nil
}

// IsLocal reports whether a host is this machine or one of its cloud's metadata servers, which need no TLS.
func IsLocal(host string) bool { return IsLoopback(host) || IsMetadata(host) }

// IsLoopback reports whether a host is this machine.
func IsLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// IsMetadata reports whether a host is one at which clouds have their metadata servers: link-local addresses, AWS's
// unique local ones, and Google's name. Calls to it bypass a proxy.
func IsMetadata(host string) bool {
	if host == "metadata.google.internal" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && (address.IsLinkLocalUnicast() || awsLocal.Contains(address))
}

// awsLocal has the IPv6 addresses of AWS's metadata servers, fd00:ec2::254 and fd00:ec2::23.
var awsLocal = netip.MustParsePrefix("fd00:ec2::/32")

// word matches an identifier that can stand in a URL's path or in a form without harm.
var word = regexp.MustCompile(`^[A-Za-z0-9._~:/@+=-]{1,256}$`)

// under reports whether host is a subdomain of one of the domains.
func under(host string, domains ...string) bool {
	for _, domain := range domains {
		if strings.HasSuffix(strings.ToLower(host), "."+domain) {
			return true
		}
	}
	return false
}
