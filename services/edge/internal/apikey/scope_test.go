package apikey

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/platform/apierr"
)

func TestScopes(t *testing.T) {
	if !slices.IsSorted(scopes) || len(scopes)+2 > 64 {
		t.Fatalf("%d scopes, sorted: %t; want at most 62, sorted", len(scopes), slices.IsSorted(scopes))
	}
	seen := Read.grants() | Write.grants()
	for _, scope := range scopes {
		set := scope.grants()
		if set == 0 || set&seen != 0 || set&(set-1) != 0 {
			t.Errorf("%s grants %b, want one bit of its own beside %b", scope, set, seen)
		}
		seen |= set
	}
}

// A permission grants itself, an area the scopes below it but those that decide or mint, and nothing else grants anything.
func TestGrants(t *testing.T) {
	for _, given := range append(Scopes(), Read, Write, "ai:*", "notifications:*", "webhooks:*", "", "*", ":*", "ai", "ai:", "ai:chat:*", "READ", "ai:chat:invoke ") {
		area, all := strings.CutSuffix(string(given), ":*")
		for _, asked := range append(Scopes(), Read, Write) {
			want := given == asked || all && area != "" && !strings.Contains(area, ":") &&
				strings.HasPrefix(string(asked), area+":") && !strings.HasSuffix(string(asked), ":decide") && asked != "notifications:tokens:mint" && asked != "ai:approvers:write"
			if got := GrantsOf([]Permission{given})&asked.grants() != 0; got != want {
				t.Errorf("%q grants %q: %t, want %t", given, asked, got, want)
			}
		}
	}
}

// The refusal of permissions names all that there are, and none that was sent: it may be a key.
func TestUnknownPermission(t *testing.T) {
	const sent = "swy_live_sent"
	err := checkPermissions([]Permission{Read, sent})
	shown := apierr.From(err)
	if shown.Kind.HTTPStatus() != 400 || shown.Field() != "permissions" || strings.Contains(err.Error(), sent) || len(err.Error()) > 1200 {
		t.Errorf("refused with %d, field %s: %v", shown.Kind.HTTPStatus(), shown.Field(), err)
	}
	for _, known := range append(Scopes(), Read, Write, "ai:*", "notifications:*", "webhooks:*") {
		if !strings.Contains(err.Error(), string(known)) {
			t.Errorf("%v does not name %s", err, known)
		}
	}
}

// The documentation of keys has each resource and its actions.
func TestScopesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/keys.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z]+:.*?) \\| (`.*?) \\|").FindAllStringSubmatch(string(page), -1) {
		for resource := range strings.SplitSeq(row[1], ", ") {
			for action := range strings.SplitSeq(row[2], ", ") {
				documented[strings.Trim(resource, "`")] = append(documented[strings.Trim(resource, "`")], strings.Trim(action, "`"))
			}
		}
	}
	want := map[string][]string{}
	for _, scope := range scopes {
		last := strings.LastIndexByte(string(scope), ':')
		want[string(scope)[:last]] = append(want[string(scope)[:last]], string(scope)[last+1:])
	}
	if diff := cmp.Diff(want, documented, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("scopes in docs/keys.md (-want +got):\n%s", diff)
	}
}
