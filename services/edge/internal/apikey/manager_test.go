package apikey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

func TestRequestCheck(t *testing.T) {
	now := time.Now()
	good := Request{Organization: "org-1", Product: "ai", Permissions: []Permission{Write, Read, Read}}
	tests := map[string]struct {
		change func(*Request)
		field  string
	}{
		"good":               {func(*Request) {}, ""},
		"no organization":    {func(r *Request) { r.Organization = "" }, "organization_id"},
		"organization":       {func(r *Request) { r.Organization = "a b" }, "organization_id"},
		"unknown product":    {func(r *Request) { r.Product = "aI" }, "product"},
		"no permission":      {func(r *Request) { r.Permissions = nil }, "permissions"},
		"unknown permission": {func(r *Request) { r.Permissions = []Permission{Read, "admin"} }, "permissions"},
		"unknown scope":      {func(r *Request) { r.Permissions = []Permission{"ai:chat:write"} }, "permissions"},
		"unknown area":       {func(r *Request) { r.Permissions = []Permission{"admin:*"} }, "permissions"},
		"every area":         {func(r *Request) { r.Permissions = []Permission{"*"} }, "permissions"},
		"nameless area":      {func(r *Request) { r.Permissions = []Permission{":*"} }, "permissions"},
		"long name":          {func(r *Request) { r.Name = strings.Repeat("n", 201) }, "name"},
		"environment":        {func(r *Request) { r.Environment = "li_ve" }, "environment"},
		"expired":            {func(r *Request) { r.ExpiresAt = &now }, "expires_at"},
		"limit":              {func(r *Request) { r.Limit.Requests = 5 }, "rate_limit"},
		"terms":              {func(r *Request) { r.Terms.Models = []string{"a", "a"} }, "models"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := good
			tt.change(&r)
			got, err := r.check([]string{"ai"}, now)
			if tt.field == "" {
				if err != nil || len(got.Permissions) != 2 || got.Environment != "live" {
					t.Errorf("check = %+v, %v", got, err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), tt.field+":") {
				t.Errorf("error = %v, want one on %s", err, tt.field)
			}
		})
	}
}

// brokenStore fails with what it was given, as a driver that quotes its arguments would.
type brokenStore struct {
	Store

	given *Digest
}

func (s brokenStore) Insert(_ context.Context, key Key, digest Digest, _ Entry) error {
	*s.given = digest
	return fmt.Errorf("duplicate: %+v %x", key, digest)
}

func (brokenStore) Change(context.Context, string, Decision) (Key, Digest, bool, error) {
	return Key{ID: "key_1"}, Digest{1}, true, nil
}

type brokenBus struct{}

func (brokenBus) Announce(context.Context, Digest) error { return errors.New("no Redis") }

// The text of a key must be in no error and no log line; pepper neither.
func TestBookLeaksNothing(t *testing.T) {
	const hidden = "pepper-that-must-not-be-seen-anywhere"
	var logs bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	pepper := pepperOf(t, hidden)
	var given Digest
	manager := NewManager(pepper, brokenStore{given: &given}, brokenBus{}, []string{"ai"}, log)

	_, text, err := manager.Create(t.Context(), Actor{Name: "op"}, Request{Organization: "o", Product: "ai", Permissions: []Permission{Read}})
	if err == nil || !text.IsZero() {
		t.Fatal("the store failed, but a key came out")
	}
	shown := apierr.NewDocument(apierr.From(err), "req_1")
	testkit.NoLeak(t, hidden, err.Error(), fmt.Sprintf("%+v %+v %#v", manager, pepper, pepper), logs.String())
	testkit.NoLeak(t, string(given[:]), fmt.Sprint(shown), logs.String())

	good := NewManager(pepper, openStore{}, nil, []string{"ai"}, log)
	key, text, err := good.Create(t.Context(), Actor{Name: "op"}, Request{Organization: "o", Product: "ai", Permissions: []Permission{Read}})
	if err != nil || !WellFormed(text.Reveal()) {
		t.Fatal(err)
	}
	testkit.NoLeak(t, text.Reveal(), fmt.Sprintf("%+v %v", key, text), logs.String())
	// A lookup that fails must not name the key either.
	v := NewVerifier(pepper, &fakeStore{err: errors.New("away")}, 100, stale, Limits{})
	_, err = v.Verify(t.Context(), "Bearer "+text.Reveal())
	testkit.NoLeak(t, text.Reveal(), err.Error())

	// A revocation that can't be announced still stands.
	if err := manager.Revoke(t.Context(), Actor{Name: "op"}, "key_1"); err != nil {
		t.Errorf("Revoke = %v", err)
	}
	if !strings.Contains(logs.String(), "not announced") {
		t.Error("the failed announcement is not in the log")
	}
}

type openStore struct{ brokenStore }

func (openStore) Insert(context.Context, Key, Digest, Entry) error { return nil }
