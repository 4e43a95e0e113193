package caller_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/testkit"
)

func TestRoles(t *testing.T) {
	may := map[[2]caller.Role]bool{
		{"", caller.RolePublic}:                       true,
		{"", caller.RoleService}:                      false,
		{caller.RoleService, caller.RoleService}:      true,
		{caller.RoleService, caller.RoleOperator}:     false,
		{caller.RoleService, caller.RoleSupport}:      false,
		{caller.RoleSupport, caller.RoleSupport}:      true,
		{caller.RoleSupport, caller.RoleService}:      false,
		{caller.RoleOperator, caller.RoleService}:     true,
		{caller.RoleOperator, caller.RoleSupport}:     true,
		{caller.RoleOperator, caller.RoleOperator}:    true,
		{caller.RoleSupport, caller.RolePublic}:       true,
		{caller.Role("public"), caller.RoleOperator}:  false,
		{caller.Role("unknown"), caller.RoleOperator}: false,
	}
	for pair, want := range may {
		if got := pair[0].May(pair[1]); got != want {
			t.Errorf("%q may %q = %v, want %v", pair[0], pair[1], got, want)
		}
	}
}

func TestAgreement(t *testing.T) {
	c := caller.Caller{Organization: "org-1", Owner: "ann"}
	tests := map[string]struct {
		got    func() (string, error)
		want   string
		status int
	}{
		"organization of the header":  {func() (string, error) { return c.OrganizationOf("") }, "org-1", 0},
		"organization agrees":         {func() (string, error) { return c.OrganizationOf("org-1") }, "org-1", 0},
		"organization differs":        {func() (string, error) { return c.OrganizationOf("org-2") }, "", 403},
		"organization of the body":    {func() (string, error) { return caller.Caller{}.OrganizationOf("org-2") }, "org-2", 0},
		"no organization":             {func() (string, error) { return caller.Caller{}.OrganizationOf("") }, "", 400},
		"default organization":        {func() (string, error) { return caller.Caller{}.OrganizationOr("", "default") }, "default", 0},
		"header beats the default":    {func() (string, error) { return c.OrganizationOr("", "default") }, "org-1", 0},
		"owner of the header":         {func() (string, error) { return c.OwnerOf("") }, "ann", 0},
		"owner differs":               {func() (string, error) { return c.OwnerOf("bob") }, "", 400},
		"owner of the field":          {func() (string, error) { return caller.Caller{}.OwnerOf("bob") }, "bob", 0},
		"user and key may be missing": {func() (string, error) { return c.UserOf("") }, "", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tt.got()
			status := 0
			if err != nil {
				status = apierr.From(err).Kind.HTTPStatus()
			}
			if got != tt.want || status != tt.status {
				t.Errorf("got %q, status %d; want %q, %d", got, status, tt.want, tt.status)
			}
		})
	}
}

// Only the edge's header verifies a user, and only if the request names one.
func TestUserVerified(t *testing.T) {
	for _, tt := range []struct {
		user, verified string
		want           bool
	}{{"ann", "true", true}, {"ann", "", false}, {"ann", "TRUE", false}, {"ann", "1", false}, {"", "true", false}} {
		var c caller.Caller
		err := c.Read(func(name string) string {
			return map[string]string{caller.HeaderUser: tt.user, caller.HeaderUserVerified: tt.verified}[name]
		})
		if err != nil || c.UserVerified != tt.want {
			t.Errorf("%+v: %t, %v", tt, c.UserVerified, err)
		}
	}
}

func TestReadRefusesUnprintable(t *testing.T) {
	for _, value := range []string{"a b", "a\nb", "ä", strings.Repeat("x", 257)} {
		var c caller.Caller
		if err := c.Read(func(string) string { return value }); err == nil {
			t.Errorf("%q was taken as an identifier", value)
		}
	}
}

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func TestTokens(t *testing.T) {
	path := testkit.File(t, "tokens: [{name: edge, role: service, sha256: "+digest("tok-1")+"}]\n")
	tokens, err := caller.LoadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tokens.Authenticate("Bearer tok-1")
	if err != nil || c.Name != "edge" || c.Role != caller.RoleService {
		t.Errorf("Authenticate = %+v, %v", c, err)
	}
	for _, bad := range []string{"", "tok-1", "Basic tok-1", "Bearer ", "Bearer tok-2", "Bearer tok-1 "} {
		_, err := tokens.Authenticate(bad)
		if err == nil || apierr.From(err).Kind != apierr.KindUnauthenticated {
			t.Errorf("%q: err = %v, want unauthenticated", bad, err)
		}
		if err != nil && strings.Contains(err.Error(), "tok-") {
			t.Errorf("token in the error: %v", err)
		}
	}

	// An invalid file on reload changes nothing; a valid one replaces the tokens.
	if err := os.WriteFile(path, []byte("tokens: [{name: x}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Reload(); err == nil {
		t.Error("a bad file was taken")
	}
	if _, err := tokens.Authenticate("Bearer tok-1"); err != nil {
		t.Errorf("a bad file took the old tokens away: %v", err)
	}
	if err := os.WriteFile(path, []byte("tokens: [{name: x, role: operator, sha256: "+digest("tok-3")+"}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Authenticate("Bearer tok-1"); err == nil {
		t.Error("a removed token still opens")
	}
}

func TestWatchReloads(t *testing.T) {
	path := testkit.File(t, "tokens: [{name: edge, role: service, sha256: "+digest("tok-1")+"}]\n")
	tokens, err := caller.LoadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- tokens.Watch(ctx, slog.New(slog.DiscardHandler)) }()
		opens := func(token string) bool {
			_, err := tokens.Authenticate("Bearer " + token)
			return err == nil
		}
		for _, step := range []struct {
			text     string
			old, new bool
		}{
			{"tokens: [{name: x}]", true, false},
			{"tokens: [{name: edge, role: service, sha256: " + digest("tok-2") + "}]", false, true},
		} {
			if err := os.WriteFile(path, []byte(step.text), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if opens("tok-1") != step.old || opens("tok-2") != step.new {
				t.Errorf("after %q: old %v, new %v", step.text, opens("tok-1"), opens("tok-2"))
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestTokenFileIsStrict(t *testing.T) {
	for name, text := range map[string]string{
		"empty":         "",
		"no token":      "tokens: []",
		"unknown field": "tokens: [{name: a, role: service, sha256: " + digest("x") + ", secret: y}]",
		"unknown role":  "tokens: [{name: a, role: root, sha256: " + digest("x") + "}]",
		"short digest":  "tokens: [{name: a, role: service, sha256: abcd}]",
		"no name":       "tokens: [{role: service, sha256: " + digest("x") + "}]",
	} {
		if _, err := caller.LoadTokens(testkit.File(t, text)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// An owner's session names no run, in the header or in the body. An organization that calls on an owner's behalf may.
func TestOwnersSessionsNameNoRun(t *testing.T) {
	for name, c := range map[string]struct {
		headers map[string]string
		field   string
		want    string
		refused bool
	}{
		"on an owner's behalf":        {map[string]string{caller.HeaderOwner: "ada"}, "r1", "r1", false},
		"an owner's session":          {map[string]string{caller.HeaderOwner: "ada", caller.HeaderOwnerSession: "true"}, "", "", false},
		"its run in the body":         {map[string]string{caller.HeaderOwner: "ada", caller.HeaderOwnerSession: "true"}, "r1", "", true},
		"its run in the header":       {map[string]string{caller.HeaderOwner: "ada", caller.HeaderOwnerSession: "true", caller.HeaderRun: "r1"}, "", "", true},
		"a session without an owner":  {map[string]string{caller.HeaderOwnerSession: "true"}, "r1", "r1", false},
		"another value of the header": {map[string]string{caller.HeaderOwner: "ada", caller.HeaderOwnerSession: "1"}, "r1", "r1", false},
	} {
		var who caller.Caller
		if err := who.Read(func(header string) string { return c.headers[header] }); err != nil {
			t.Fatal(err)
		}
		run, err := who.RunOf(c.field)
		if refused := err != nil; run != c.want || refused != c.refused || refused && apierr.From(err).Kind != apierr.KindForbidden {
			t.Errorf("%s: %q, %v", name, run, err)
		}
	}
}
