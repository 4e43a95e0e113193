package inference

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/secret"
)

// Pseudonyms are stable, and differ between users, organizations and keys. They hold no name.
func TestPseudonym(t *testing.T) {
	of := NewPseudonym(secret.New("key"))
	name := of("acme", "ann@acme.example")
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(name) {
		t.Errorf("%q is no hash of 64 digits", name)
	}
	if again := NewPseudonym(secret.New("key"))("acme", "ann@acme.example"); again != name {
		t.Errorf("%q and then %q for one user", name, again)
	}
	for what, other := range map[string]string{
		"another user":         of("acme", "bob@acme.example"),
		"another organization": of("other", "ann@acme.example"),
		"another key":          NewPseudonym(secret.New("other"))("acme", "ann@acme.example"),
		"another split":        of("acm", "eann@acme.example"),
	} {
		if other == name {
			t.Errorf("%s has the same pseudonym", what)
		}
	}
}

// A provider gets an end user's pseudonym; the answer names the hints that the provider doesn't take.
func TestHintsOfAChat(t *testing.T) {
	b := setup(t, nil, &script{name: "a", answer: provider.Answer{Text: "yes", Usage: used}})
	r := request()
	r.Chat.EndUser = "ann@acme.example"
	r.Hints = []provider.HintField{{Kind: provider.HintEndUser, Name: "user"}, {Name: "brand_new"}, {Name: "brand_new"}}
	done, err := b.Chat(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.scripts["a"].chat.EndUser, b.Pseudonym("acme", "ann@acme.example"); got != want {
		t.Errorf("the provider gets the end user %q, want %q", got, want)
	}
	if diff := cmp.Diff([]string{"user", "brand_new"}, done.Route.Ignored); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
}
