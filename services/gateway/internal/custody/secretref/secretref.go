// Package secretref reads the secrets that organizations name instead of
// sending them: files below a folder, variables of the environment, and secrets
// of a cloud's secret manager. An operator says where each organization's
// secrets lie; a reference that leads anywhere else is refused, so that no
// organization can name another's secrets. Package byok calls it.
package secretref

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"switchyard.dev/services/platform/secret"
)

// ErrRefused is a reference that the organization may not use, or that is none.
// Its text says why, and may be shown: it repeats nothing of the reference.
var ErrRefused = errors.New("refused")

// ErrAbsent is a reference to nothing: the secret is not there, or empty.
var ErrAbsent = errors.New("there is no such secret")

// Placeholder stands for the organization in settings.
const Placeholder = "{organization}"

// maxSecret bounds a secret in bytes.
const maxSecret = 8 << 10

// Options say where secrets lie. What is empty is switched off.
type Options struct {
	// FilesDir holds a folder for each organization.
	FilesDir string
	// EnvPrefix begins the names of variables, as "BYOK_{organization}__".
	EnvPrefix string
	// Managers are URLs that secrets in secret managers begin with, as
	// "awssecretsmanager://byok/{organization}/?region=eu-west-1".
	Managers []string
}

// Resolver reads secrets. Safe for concurrent use.
type Resolver struct {
	files    string
	env      *scope
	managers []manager
	open     opener
}

// New checks the options.
func New(o Options) (*Resolver, error) {
	r := &Resolver{files: o.FilesDir, open: newOpener()}
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

// Read gives the secret that an organization's reference names, without its
// trailing newlines. Errors are ErrRefused, ErrAbsent, or one that may pass.
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
		return "", fmt.Errorf("%w: the organization's name can't be that of a folder", ErrRefused)
	}
	name, err := r.within(organization, path)
	if err != nil {
		return "", err
	}
	// A Root keeps to its folder, whatever symbolic links lie in it.
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

// within is the path inside of the organization's folder: a relative one is
// there, an absolute one must lead there.
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

// component reports whether an organization's name can be one part of a path.
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
		// They would choose the server that is asked, and whose rights it is asked with.
		return "", fmt.Errorf("%w: a reference has no query, fragment or user", ErrRefused)
	}
	for _, m := range r.managers {
		if m.scheme == scheme && m.scope.admits(organization, strings.TrimPrefix(reference, scheme+"://")) {
			return r.open.read(ctx, reference+m.query)
		}
	}
	return "", fmt.Errorf("%w: the secret is not one that the organization may name", ErrRefused)
}

// scope is what an organization's names look like: before, the organization,
// the separator, and a last part that doesn't hold the separator. Thus no name
// is of two organizations.
type scope struct{ before, separator string }

// String is the scope as it was set.
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
