package credential

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/custody/sealing"
	"switchyard.dev/services/gateway/internal/custody/secretref"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// place is where references are read.
type place struct {
	mu    sync.Mutex
	value string
	err   error
	reads int
}

func (p *place) Read(_ context.Context, organization, reference string) (secret.Value, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads++
	if organization != "org_a" || reference != "file:token" {
		return secret.Value{}, secretref.ErrRefused
	}
	return secret.New(p.value), p.err
}

// put changes what reads get.
func (p *place) put(value string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.value, p.err = value, err
}

func referenced() *toolserver.Server {
	return &toolserver.Server{Organization: "org_a", ID: "tools", Version: 1, Credential: toolserver.Credential{
		Custody: toolserver.CustodyReference, Header: "Authorization", Scheme: "Bearer", Reference: "file:token",
	}}
}

var errAway = errors.New("away")

// A referenced secret is read once a minute, and used for an hour while it can't be read.
func TestReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{value: "first"}
		c := NewCache(p, nil)
		for _, step := range []struct {
			after time.Duration
			value string // what the place has
			err   error
			want  string // what the header has; empty for an error
			reads int
		}{
			{0, "first", nil, "Bearer first", 1},
			{59 * time.Second, "second", nil, "Bearer first", 1},
			{2 * time.Second, "second", nil, "Bearer second", 2},
			{2 * time.Minute, "", errAway, "Bearer second", 3},
			{time.Second, "", errAway, "Bearer second", 3},
			{2 * time.Second, "third", nil, "Bearer third", 4},
			{59 * time.Minute, "", errAway, "Bearer third", 5},
			{2 * time.Minute, "", errAway, "", 6},
			{time.Second, "fourth", nil, "", 6},
			{2 * time.Second, "fourth", nil, "Bearer fourth", 7},
			{2 * time.Minute, "", secretref.ErrAbsent, "", 8},
			{3 * time.Second, "a b", nil, "", 9},
			{3 * time.Second, "a\r\nb", nil, "", 10},
		} {
			time.Sleep(step.after)
			p.value, p.err = step.value, step.err
			name, value, err := c.Header(t.Context(), referenced())
			if value.Reveal() != step.want || (err == nil) != (step.want != "") || err == nil && name != "Authorization" {
				t.Errorf("%+v: %s %q, %v", step, name, value.Reveal(), err)
			}
			if p.reads != step.reads {
				t.Errorf("%+v: %d reads", step, p.reads)
			}
		}
		changed := referenced()
		changed.Version, changed.Credential.Reference = 2, "file:other"
		if _, _, err := c.Header(t.Context(), changed); !errors.Is(err, secretref.ErrRefused) {
			t.Errorf("a reference that is refused: %v", err)
		}
		if name, value, err := c.Header(t.Context(), &toolserver.Server{ID: "open"}); name != "" || !value.IsZero() || err != nil {
			t.Errorf("a server without a credential: %s, %v", name, err)
		}
	})
}

// A sealed secret is for one server of one organization.
func TestSealed(t *testing.T) {
	key, err := sealing.Generate(sealing.X25519, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	line, err := key.Text()
	if err != nil {
		t.Fatal(err)
	}
	keys := keysOf(t, line)
	sealed, err := key.Seal("org_a", toolserver.SealedTo("tools"), secret.New("s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	server := func(organization, id string) *toolserver.Server {
		return &toolserver.Server{Organization: organization, ID: id, Version: 1, Credential: toolserver.Credential{
			Custody: toolserver.CustodySealed, Header: "X-Key", KeyID: key.ID, Ciphertext: sealed,
		}}
	}
	if got := toolserver.SealedTo("a:b"); got != "mcp/a%3Ab" {
		t.Errorf("a server with a colon is %s", got)
	}
	c := NewCache(nil, keys)
	if name, value, err := c.Header(t.Context(), server("org_a", "tools")); name != "X-Key" || value.Reveal() != "s3cret" || err != nil {
		t.Errorf("%s, %v", name, err)
	}
	for _, other := range []*toolserver.Server{server("org_b", "tools"), server("org_a", "other"), server("", "tools")} {
		if _, _, err := c.Header(t.Context(), other); !errors.Is(err, sealing.ErrInvalid) {
			t.Errorf("%+v: %v", other.Key(), err)
		}
	}
}

func TestSecretsAreBounded(t *testing.T) {
	c := NewCache(&place{value: "first"}, nil)
	for i := range maxSecrets + 10 {
		server := referenced()
		server.Version = i
		if _, _, err := c.Header(t.Context(), server); err != nil {
			t.Fatal(err)
		}
	}
	if c.entries.Len() != maxSecrets {
		t.Errorf("%d secrets are kept", c.entries.Len())
	}
}

func keysOf(t *testing.T, line secret.Value) *sealing.Keys {
	t.Helper()
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, "a.key"), line.Reveal())
	keys, err := sealing.NewKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
