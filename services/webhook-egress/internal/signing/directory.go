package signing

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"switchyard.dev/services/platform/secret"
)

const (
	// freshFor bounds how long a replaced secret may still sign.
	freshFor = 5 * time.Second
	// missingFor is shorter, because a delivery waits for the file.
	missingFor = time.Second
	// maxCached bounds the number of cached organizations.
	maxCached = 10_000
)

// Directory finds the secrets of organizations in files: one file per organization with a secret per line, the
// current one first, and a default file for organizations without one. The files are read again every few seconds, so
// that a rotation is a single write. It is safe for concurrent use.
type Directory struct {
	dir      string
	fallback secret.File
	log      *slog.Logger
	now      func() time.Time

	mu     sync.Mutex
	cached map[string]entry
	// reported are the findings that were logged last, by organization; that of the default file is at "".
	reported map[string]finding
}

// finding describes the secrets of a file that SchemeV1 can't be made with: their number, and the first one's place.
type finding struct{ count, first int }

type entry struct {
	secrets []secret.Value
	until   time.Time
}

// NewDirectory returns a Directory that reads from dir and fallback; either may be empty.
func NewDirectory(dir string, fallback secret.File, log *slog.Logger, now func() time.Time) *Directory {
	return &Directory{dir: dir, fallback: fallback, log: log, now: now, cached: make(map[string]entry), reported: make(map[string]finding)}
}

// Of returns the secrets of an organization, the current one first; none if none can be read.
func (d *Directory) Of(ctx context.Context, organization string) []secret.Value {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if found, ok := d.cached[organization]; ok && now.Before(found.until) {
		return found.secrets
	}
	found := entry{secrets: d.read(ctx, organization)}
	found.until = now.Add(freshFor)
	if len(found.secrets) == 0 {
		found.until = now.Add(missingFor)
	}
	if len(d.cached) >= maxCached {
		clear(d.cached)
	}
	d.cached[organization] = found
	return found.secrets
}

func (d *Directory) read(ctx context.Context, organization string) []secret.Value {
	if d.dir != "" && organization != "" {
		secrets, err := secret.File(filepath.Join(d.dir, FileName(organization))).Lines()
		if err == nil {
			d.report(ctx, organization, secrets)
			return secrets
		}
		// An id that is too long for a file name has no file.
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENAMETOOLONG) {
			// An unreadable file must not lead to signing with another secret.
			d.log.WarnContext(ctx, "the organization's signing secret cannot be read",
				slog.String("organization", organization), slog.String("error", err.Error()))
			return nil
		}
	}
	if d.fallback == "" {
		return nil
	}
	secrets, err := d.fallback.Lines()
	if err != nil {
		d.log.WarnContext(ctx, "the default signing secret cannot be read", slog.String("error", err.Error()))
		return nil
	}
	d.report(ctx, "", secrets)
	return secrets
}

// report logs secrets of an organization, or of the default file, that SchemeV1 can't be made with, when they change.
func (d *Directory) report(ctx context.Context, organization string, secrets []secret.Value) {
	var found finding
	for i, one := range secrets {
		if SuitsV1(one) {
			continue
		}
		if found.count++; found.count == 1 {
			found.first = i + 1
		}
	}
	if found == d.reported[organization] {
		return
	}
	delete(d.reported, organization)
	if found.count == 0 {
		return
	}
	if len(d.reported) >= maxCached {
		clear(d.reported)
	}
	d.reported[organization] = found
	log := d.log.With(slog.Int("secrets", found.count), slog.Int("first", found.first), slog.String("rule", V1Rule))
	if organization == "" {
		log.WarnContext(ctx, "secrets of the default file don't suit v1 signatures, which deliveries lack")
		return
	}
	log.WarnContext(ctx, "secrets of the organization don't suit v1 signatures, which deliveries lack",
		slog.String("organization", organization))
}

// Check reads the default file and the organizations' files, so that what is wrong with them is logged before a delivery
// needs them. It reads maxCached files at most.
func (d *Directory) Check(ctx context.Context) {
	if d.fallback != "" {
		d.Of(ctx, "")
	}
	if d.dir == "" {
		return
	}
	for _, organization := range d.organizations(ctx) {
		if ctx.Err() != nil {
			return
		}
		d.Of(ctx, organization)
	}
}

// organizations returns the organizations that have a file.
func (d *Directory) organizations(ctx context.Context) []string {
	folder, err := os.Open(d.dir)
	if err != nil {
		d.log.WarnContext(ctx, "the directory of signing secrets cannot be read", slog.String("error", err.Error()))
		return nil
	}
	defer func() { _ = folder.Close() }()
	names, err := folder.Readdirnames(maxCached)
	if err != nil && !errors.Is(err, io.EOF) {
		d.log.WarnContext(ctx, "the directory of signing secrets cannot be read", slog.String("error", err.Error()))
	}
	var organizations []string
	for _, name := range names {
		// Other names are no organization's, such as the hidden ones of a mounted volume.
		if organization, err := url.PathUnescape(name); err == nil && FileName(organization) == name {
			organizations = append(organizations, organization)
		}
	}
	return organizations
}

// FileName returns the name of an organization's file: its id, percent-encoded so that it is a single path element. A
// leading dot is encoded too.
func FileName(organization string) string {
	name := url.PathEscape(organization)
	if rest, ok := strings.CutPrefix(name, "."); ok {
		name = "%2E" + rest
	}
	return name
}
