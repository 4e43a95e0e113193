package caller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/bounded"
	"switchyard.dev/services/platform/strictyaml"
)

// Tokens holds the service tokens that a capability service accepts, as SHA-256 digests. The tokens have the entropy of
// a random key, so a plain hash is sufficient. Safe for concurrent use.
type Tokens struct {
	path    string
	entries atomic.Pointer[map[[sha256.Size]byte]entry]
	loaded  string // stamp of the file before it was first read
}

type entry struct {
	name string
	role Role
}

// TokenDigest is the SHA-256 of a service token.
type TokenDigest [sha256.Size]byte

// DigestOf returns the digest by which a token is known.
func DigestOf(token string) TokenDigest { return sha256.Sum256([]byte(token)) }

// LoadTokens reads a token file:
//
//	tokens:
//	  - name: edge
//	    role: service        # service, operator or support
//	    sha256: <64 hex digits of the token's SHA-256>
func LoadTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	t.loaded = t.stamp()
	if err := t.Reload(); err != nil {
		return nil, err
	}
	return t, nil
}

// Reload reads the file again. If the file is invalid, it returns an error and the tokens stay unchanged.
func (t *Tokens) Reload() error {
	text, err := bounded.ReadFile(t.path, bounded.MaxFile)
	if err != nil {
		return fmt.Errorf("read service tokens: %w", err)
	}
	entries, err := parseTokens(string(text))
	if err != nil {
		return fmt.Errorf("service tokens %s: %w", t.path, err)
	}
	t.entries.Store(&entries)
	return nil
}

// watchEvery is how often Watch checks the file, and so how long a revoked token may still be accepted.
const watchEvery = 2 * time.Second

// Watch reloads the file when it changes, until ctx ends. If the file can't be read or parsed, the tokens stay
// unchanged and one error is logged.
func (t *Tokens) Watch(ctx context.Context, log *slog.Logger) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	seen := t.loaded
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := t.stamp()
		if now == seen {
			continue
		}
		seen = now
		if err := t.Reload(); err != nil {
			log.ErrorContext(ctx, "service tokens not reloaded", "error", err.Error())
			continue
		}
		log.InfoContext(ctx, "service tokens reloaded")
	}
}

// stamp returns a text that changes when the file does. It follows symbolic links, which Kubernetes uses to replace
// mounted secrets.
func (t *Tokens) stamp() string {
	info, err := os.Stat(t.path)
	if err != nil {
		return err.Error()
	}
	return info.ModTime().String() + strconv.FormatInt(info.Size(), 10)
}

func parseTokens(text string) (map[[sha256.Size]byte]entry, error) {
	var file struct {
		Tokens []struct {
			Name   string `yaml:"name"`
			Role   Role   `yaml:"role"`
			SHA256 string `yaml:"sha256"`
		} `yaml:"tokens"`
	}
	if err := strictyaml.Decode([]byte(text), &file); err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	entries := make(map[[sha256.Size]byte]entry, len(file.Tokens))
	for i, token := range file.Tokens {
		var sum [sha256.Size]byte
		raw, err := hex.DecodeString(token.SHA256)
		switch {
		case token.Name == "":
			return nil, fmt.Errorf("tokens[%d]: name is required", i)
		case token.Role != RoleService && token.Role != RoleOperator && token.Role != RoleSupport:
			return nil, fmt.Errorf("tokens[%d] %q: role must be service, operator or support", i, token.Name)
		case err != nil || len(raw) != len(sum):
			return nil, fmt.Errorf("tokens[%d] %q: sha256 must be 64 hex digits", i, token.Name)
		}
		copy(sum[:], raw)
		entries[sum] = entry{token.Name, token.Role}
	}
	if len(entries) == 0 {
		return nil, errors.New("holds no token")
	}
	return entries, nil
}

// Authenticate returns the caller that an Authorization header's value identifies. Tokens are looked up by their
// digest, so that the time doesn't depend on how much of a token is right.
func (t *Tokens) Authenticate(authorization string) (Caller, error) {
	scheme, token, _ := strings.Cut(authorization, " ")
	if authorization == "" || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return Caller{}, apierr.New(apierr.KindUnauthenticated, apierr.ReasonUnauthenticated,
			"a service token is required: Authorization: Bearer <token>")
	}
	found, ok := t.Holder(DigestOf(token))
	if !ok {
		return Caller{}, apierr.New(apierr.KindUnauthenticated, apierr.ReasonUnauthenticated, "the service token is not valid")
	}
	return found, nil
}

// Holder returns the caller whose token has a digest, and reports whether there is one.
func (t *Tokens) Holder(digest TokenDigest) (Caller, bool) {
	found, ok := (*t.entries.Load())[digest]
	return Caller{Name: found.name, Role: found.role}, ok
}
