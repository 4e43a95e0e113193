package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/custody/byok"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/postgres"
)

var sealedSecret = byok.Credential{Custody: byok.CustodySealed, KeyID: "k", Ciphertext: []byte{1, 2}, Hint: "****abcd", Fingerprint: "f"}

func moment(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func TestByokChange(t *testing.T) {
	c, pool, changes := newControl(t)
	b := postgres.NewByok(pool, c)
	now := moment(time.Now())
	if _, err := b.Get(t.Context(), "acme", "openai"); !errors.Is(err, byok.ErrNone) {
		t.Fatalf("nothing is there: %v", err)
	}
	days := 30
	put, err := b.Change(t.Context(), "acme", "openai", entry("byok.put", "acme", "openai"), func(present byok.Config) (byok.Config, error) {
		next, _, err := present.Put(sealedSecret, byok.Terms{Owner: "ada", RotationDays: &days, ExpiresAt: now.Add(time.Hour)}, now)
		return next, err
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Get(t.Context(), "acme", "openai")
	if err != nil {
		t.Fatal(err)
	}
	utc := func(c byok.Config) byok.Config {
		c.CreatedAt, c.UpdatedAt, c.ExpiresAt = moment(c.CreatedAt), moment(c.UpdatedAt), moment(c.ExpiresAt)
		return c
	}
	if diff := cmp.Diff(put, utc(got)); diff != "" || put.Revision != 1 {
		t.Errorf("revision %d, stored (-put +got):\n%s", put.Revision, diff)
	}
	// A change that decide refuses stores nothing.
	refused := errors.New("refused")
	if _, err := b.Change(t.Context(), "acme", "openai", entry("byok.rotate", "acme", "openai"), func(byok.Config) (byok.Config, error) {
		return byok.Config{}, refused
	}); !errors.Is(err, refused) {
		t.Errorf("refused: %v", err)
	}
	if revision, err := b.Revision(t.Context()); err != nil || revision != 1 || changes.Load() != 1 {
		t.Errorf("revision %d, %v, notified %d times", revision, err, changes.Load())
	}
}

// Concurrent rotations are serialized: each has a version of its own.
func TestByokChangesTakeTurns(t *testing.T) {
	c, pool, _ := newControl(t)
	b := postgres.NewByok(pool, c)
	put(t, b, "acme", "openai", time.Now())
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			_, err := b.Change(t.Context(), "acme", "openai", entry("byok.rotate", "acme", "openai"), func(present byok.Config) (byok.Config, error) {
				return present.Rotate(sealedSecret, byok.Terms{}, time.Now())
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	got, err := b.Get(t.Context(), "acme", "openai")
	entries, _ := c.List(t.Context(), audit.Filter{Action: "byok.rotate", Limit: 50})
	if err != nil || got.Version != 21 || got.Revision != 21 {
		t.Errorf("version %d, revision %d, %v, want 21 each", got.Version, got.Revision, err)
	}
	if len(entries) != 20 {
		t.Errorf("%d rotations in the audit, want 20", len(entries))
	}
}

func put(t *testing.T, b *postgres.Byok, organization, provider string, at time.Time) {
	t.Helper()
	_, err := b.Change(t.Context(), organization, provider, entry("byok.put", organization, provider), func(present byok.Config) (byok.Config, error) {
		next, _, err := present.Put(sealedSecret, byok.Terms{Owner: "ada"}, moment(at))
		return next, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestByokPurge(t *testing.T) {
	c, pool, _ := newControl(t)
	b := postgres.NewByok(pool, c)
	for _, provider := range []string{"openai", "anthropic", "gemini"} {
		put(t, b, "acme", provider, time.Now())
	}
	put(t, b, "bolt", "openai", time.Now())
	if _, err := b.Change(t.Context(), "acme", "gemini", entry("byok.deactivate", "acme", "gemini"), func(present byok.Config) (byok.Config, error) {
		return present.Deactivate(time.Now())
	}); err != nil {
		t.Fatal(err)
	}
	before, _ := b.Revision(t.Context())
	for _, want := range []byok.Purged{{Erased: 3}, {}} {
		got, err := b.Purge(t.Context(), "acme", time.Now(), entry("byok.purge", "acme", "acme"))
		if err != nil || got != want {
			t.Errorf("purged %+v, %v, want %+v", got, err, want)
		}
	}
	var left int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM byok_config WHERE organization_id = 'acme'
		AND (ciphertext IS NOT NULL OR secret_ref <> '' OR masked_hint <> '' OR fingerprint <> '' OR sealing_key_id <> '')`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows still say something of a secret, %v", left, err)
	}
	// A replica that follows receives all three changes.
	changed, err := b.ChangedSince(t.Context(), byok.Config{Revision: before + 1}, 10)
	if err != nil || len(changed) != 3 || changed[0].Status != byok.StatusErased {
		t.Errorf("changed %+v, %v", changed, err)
	}
	if other, err := b.Get(t.Context(), "bolt", "openai"); err != nil || other.Status != byok.StatusActive {
		t.Errorf("another organization's: %+v, %v", other, err)
	}
}

// The database's stale configurations equal those of the pure function, page by page.
func TestByokStaleIsStaleness(t *testing.T) {
	c, pool, _ := newControl(t)
	b := postgres.NewByok(pool, c)
	now := moment(time.Now())
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		if round++; round > 15 {
			return // Each one takes a database's work.
		}
		organization := fmt.Sprint("org-", round)
		ago := func(name string) time.Time {
			return now.Add(-time.Duration(rapid.IntRange(0, 120).Draw(rt, name)) * 24 * time.Hour)
		}
		var want []string
		for _, provider := range []string{"a", "b", "c", "d"} {
			config := byok.Config{
				Organization: organization, Provider: provider, Status: byok.StatusActive, Credential: sealedSecret, Version: 1, Owner: "ada",
				CreatedAt: ago("created"), UpdatedAt: now, RotationDays: rapid.SampledFrom([]int{0, 1, 30, 90}).Draw(rt, "days"),
			}
			since := func(name string) time.Time { // No configuration is used or rotated before it exists.
				if at := ago(name); at.After(config.CreatedAt) {
					return at
				}
				return config.CreatedAt
			}
			if rapid.Bool().Draw(rt, "used") {
				config.LastUsedAt = since("used at")
			}
			if rapid.Bool().Draw(rt, "rotated") {
				config.RotatedAt = since("rotated at")
			}
			if rapid.Bool().Draw(rt, "expires") {
				config.ExpiresAt = ago("expires at").Add(60 * 24 * time.Hour)
			}
			if rapid.IntRange(0, 4).Draw(rt, "active") == 0 {
				config.Status = byok.StatusDeactivated
			}
			if _, err := b.Change(t.Context(), organization, provider, entry("byok.put", organization, provider), func(byok.Config) (byok.Config, error) {
				return config, nil
			}); err != nil {
				rt.Fatal(err)
			}
			if config.Status == byok.StatusActive && len(config.Staleness(now)) > 0 {
				want = append(want, provider)
			}
		}
		var got []string
		after := ""
		for {
			page, err := b.Stale(t.Context(), byok.StaleFilter{Organization: organization, AfterOrganization: organization, AfterProvider: after, Now: now, Limit: 1})
			if err != nil {
				rt.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			after = page[0].Provider
			got = append(got, after)
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("stale %v, want %v", got, want)
		}
	})
}

func TestByokUse(t *testing.T) {
	c, pool, _ := newControl(t)
	b := postgres.NewByok(pool, c)
	now := moment(time.Now())
	put(t, b, "acme", "openai", now.Add(-time.Hour))
	for _, at := range []time.Time{now.Add(-time.Minute), now.Add(-2 * time.Minute), now.Add(-2 * time.Hour)} {
		if err := b.Use(t.Context(), []byok.Use{{Organization: "acme", Provider: "openai", At: at}, {Organization: "nobody", Provider: "x", At: at}}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := b.Get(t.Context(), "acme", "openai")
	if err != nil || !got.LastUsedAt.Equal(now.Add(-time.Minute)) || got.Revision != 1 {
		t.Errorf("last used %s, revision %d, %v", got.LastUsedAt, got.Revision, err)
	}
	list, err := b.List(t.Context(), "acme", "", 10)
	if err != nil || len(list) != 1 {
		t.Errorf("%d listed, %v", len(list), err)
	}
}
