// Package secretref reads the secrets that organizations name by reference instead of sending them: files in a folder,
// environment variables, and secrets in a cloud's secret manager. An operator configures where each organization's
// secrets are; a reference to any other place is refused, so that no organization can name another's secrets. Package
// byok calls it.
package secretref

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"switchyard.dev/services/platform/secret"
)

// ErrRefused is the error of a reference that the organization may not use, or that is malformed. The error's text says
// why, and may be shown: it repeats nothing of the reference.
var ErrRefused = errors.New("refused")

// ErrAbsent is the error of a reference to a secret that does not exist, or is empty.
var ErrAbsent = errors.New("there is no such secret")

// Placeholder stands for the organization in settings.
const Placeholder = "{organization}"

// maxSecret is the maximum length of a secret in bytes.
const maxSecret = 8 << 10

// Options are the places of secrets. An empty option switches its kind of reference off.
type Options struct {
	// FilesDir holds a folder for each organization.
	FilesDir string
	// EnvPrefix is the prefix of variable names, such as "BYOK_{organization}__".
	EnvPrefix string
	// Managers are URL prefixes of secrets in secret managers, such as
	// "awssecretsmanager://byok/{organization}/?region=eu-west-1".
	Managers []string
	// Dial connects to secret managers; nil leaves it to their libraries, which use proxies of the environment.
	Dial Dial
}

// Dial connects to host:port.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Resolver reads secrets. Safe for concurrent use.
type Resolver struct {
	files    string
	env      *scope
	managers []manager
	open     opener
}

// New returns a Resolver, or an error if an option is invalid.
func New(o Options) (*Resolver, error) {
	r := &Resolver{files: o.FilesDir, open: newOpener(o.Dial)}
	if o.EnvPrefix != "" {
		env, err := newScope(o.EnvPrefix)
		if err != nil {
			return nil, fmt.Errorf("environment prefix: %w", err)
		}
		r.env = &env
	}
	for _, text := range o.Managers {
		m, err := newManager(text)
		if err != nil {
			return nil, fmt.Errorf("secret manager: %w", err)
		}
		r.managers = append(r.managers, m)
	}
	return r, nil
}

// Read returns the secret that an organization's reference names, without trailing newlines. The error is ErrRefused,
// ErrAbsent, or a temporary one.
func (r *Resolver) Read(ctx context.Context, organization, reference string) (secret.Value, error) {
	scheme, rest, _ := strings.Cut(reference, ":")
	var text string
	var err error
	switch scheme {
	case "file":
		text, err = r.readFile(organization, rest)
	case "env":
		text, err = r.readEnv(organization, rest)
	default:
		text, err = r.readManager(ctx, organization, scheme, reference)
	}
	if err != nil {
		return secret.Value{}, err
	}
	text = strings.TrimRight(text, "\r\n")
	switch {
	case text == "":
		return secret.Value{}, ErrAbsent
	case len(text) > maxSecret:
		return secret.Value{}, fmt.Errorf("%w: the secret is larger than %d bytes", ErrRefused, maxSecret)
	}
	return secret.New(text), nil
}

// Remote reports whether reading a reference goes over a network.
func Remote(reference string) bool {
	return !strings.HasPrefix(reference, "file:") && !strings.HasPrefix(reference, "env:")
}

func (r *Resolver) readFile(organization, path string) (string, error) {
	if r.files == "" {
		return "", fmt.Errorf("%w: file references are switched off", ErrRefused)
	}
	if !component(organization) {
		return "", fmt.Errorf("%w: the organization's name is not a valid folder name", ErrRefused)
	}
	name, err := r.within(organization, path)
	if err != nil {
		return "", err
	}
	// An os.Root stays within its folder, whatever symbolic links are in it.
	root, err := os.OpenRoot(filepath.Join(r.files, organization))
	if err != nil {
		return "", absent(err)
	}
	defer root.Close() //nolint:errcheck // Nothing was written.
	stat, err := root.Stat(name)
	switch {
	case err != nil:
		return "", absent(err)
	case !stat.Mode().IsRegular():
		return "", fmt.Errorf("%w: not a regular file", ErrRefused)
	}
	file, err := root.Open(name)
	if err != nil {
		return "", absent(err)
	}
	defer file.Close() //nolint:errcheck // Nothing was written.
	text, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return "", errors.New("the file can't be read")
	}
	return string(text), nil
}

// within returns the path relative to the organization's folder. An absolute path must be below that folder.
func (r *Resolver) within(organization, path string) (string, error) {
	path = strings.TrimPrefix(path, "//") // file:///path
	if filepath.IsAbs(path) {
		below, ok := strings.CutPrefix(path, filepath.Join(r.files, organization)+"/")
		if !ok {
			return "", fmt.Errorf("%w: the file must lie in the organization's folder", ErrRefused)
		}
		path = below
	}
	if !fs.ValidPath(path) || path == "." || strings.ContainsRune(path, '\\') {
		return "", fmt.Errorf("%w: want file: and a path in the organization's folder, without \"..\"", ErrRefused)
	}
	return path, nil
}

// component reports whether an organization's name can be a single element of a path.
func component(organization string) bool {
	return fs.ValidPath(organization) && organization != "." && !strings.ContainsAny(organization, `/\`)
}

func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return ErrAbsent
	}
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err // Without the path.
	}
	return fmt.Errorf("%w: the file can't be opened: %w", ErrRefused, err)
}

func (r *Resolver) readEnv(organization, name string) (string, error) {
	if r.env == nil {
		return "", fmt.Errorf("%w: env references are switched off", ErrRefused)
	}
	if !r.env.admits(organization, name) {
		return "", fmt.Errorf("%w: the variable's name must be %s and a name", ErrRefused, r.env)
	}
	text, ok := os.LookupEnv(name)
	if !ok {
		return "", ErrAbsent
	}
	return text, nil
}

func (r *Resolver) readManager(ctx context.Context, organization, scheme, reference string) (string, error) {
	at, err := url.Parse(reference)
	if err != nil {
		return "", fmt.Errorf("%w: not a URL", ErrRefused)
	}
	if !slices.ContainsFunc(r.managers, func(m manager) bool { return m.scheme == scheme }) {
		return "", fmt.Errorf("%w: references of this scheme are switched off", ErrRefused)
	}
	if at.RawQuery != "" || at.Fragment != "" || at.User != nil {
		// They would choose the server that is called and the credentials it is called with.
		return "", fmt.Errorf("%w: a reference has no query, fragment or user", ErrRefused)
	}
	for _, m := range r.managers {
		if m.scheme == scheme && m.scope.admits(organization, strings.TrimPrefix(reference, scheme+"://")) {
			return r.open.read(ctx, reference+m.query)
		}
	}
	return "", fmt.Errorf("%w: the secret is not one that the organization may name", ErrRefused)
}

// scope is the form of an organization's names: before, the organization, the separator, and a last part without the
// separator. Thus no name belongs to two organizations.
type scope struct{ before, separator string }

// String returns the scope as it was configured.
func (s scope) String() string { return s.before + Placeholder + s.separator }

var (
	separators = regexp.MustCompile(`^[/_.-]{1,8}$`)
	lastPart   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,254}$`)
)

func newScope(text string) (scope, error) {
	before, separator, ok := strings.Cut(text, Placeholder)
	switch {
	case !ok:
		return scope{}, fmt.Errorf("must name %s", Placeholder)
	case !separators.MatchString(separator):
		return scope{}, fmt.Errorf("after %s, want one of / _ . - or several", Placeholder)
	}
	return scope{before, separator}, nil
}

func (s scope) admits(organization, name string) bool {
	last, ok := strings.CutPrefix(name, s.before+organization+s.separator)
	return ok && lastPart.MatchString(last) && !strings.Contains(last, s.separator)
}
