package toolserver

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"switchyard.dev/services/platform/apierr"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func TestSuitable(t *testing.T) {
	for prefix, want := range map[string]bool{
		"a": true, "A-1": true, "-": true, "a_b_c": true, strings.Repeat("a", 32): true,
		"": false, "_a": false, "a_": false, "a__b": false, "a.b": false, "a b": false, "ä": false, "\u212a": false, "a\x00": false, "@": false, "[": false, "`": false, "{": false,
		strings.Repeat("a", 33): false,
	} {
		if suitable(prefix) != want {
			t.Errorf("%q: %v", prefix, !want)
		}
	}
}

// No two pairs of a prefix and a tool have the same exposed name, whatever the tools are called.
func TestExposedNamesAreInjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.StringMatching(`[A-Za-z0-9-]{1,4}(_[A-Za-z0-9-]{1,4}){0,3}`).Filter(suitable).Draw(t, "prefix")
		tool := rapid.StringMatching(`[A-Za-z0-9_.-]{1,20}`).Draw(t, "tool")
		s := Server{Prefix: prefix}
		gotPrefix, gotTool, ok := Split(s.Exposed(tool))
		if !ok || s.Exposable(tool) && (gotPrefix != prefix || gotTool != tool) {
			t.Fatalf("%q of %q: %q of %q", tool, prefix, gotTool, gotPrefix)
		}
	})
}

func TestRegistration(t *testing.T) {
	r := Registration{Key: Key{"acme", "files"}, URL: "https://files.example", By: "ada"}
	s, err := r.server(noon)
	if err != nil || s.Prefix != "files" || s.Timeout != DefaultTimeout || s.Version != 1 || s.CreatedBy != "ada" || s.MovedBy != "" {
		t.Errorf("%+v, %v", s, err)
	}
	r.ID = "a:b"
	if _, err := r.server(noon); err == nil {
		t.Error("an ID without the form of a prefix is one")
	}
	if SealedTo("a:b") != "mcp/a%3Ab" || SealedTo("ab") != "mcp/ab" {
		t.Errorf("%s, %s", SealedTo("a:b"), SealedTo("ab"))
	}
}

func TestUpdate(t *testing.T) {
	s := Server{ID: "files", Prefix: "f", URL: "https://files.example/mcp", Credential: Credential{Custody: CustodySealed, Header: "X"}, Version: 3, CreatedBy: "ada", CreatedAt: noon}
	bare := s
	bare.Credential = Credential{}
	field := func(err error) string {
		e, _ := errors.AsType[*apierr.Error](err)
		if e == nil {
			return ""
		}
		return string(e.Reason) + " " + e.Field()
	}
	later := noon.Add(time.Hour)
	for name, test := range map[string]struct {
		from        Server
		update      Update
		refused     string
		moved, kept bool
	}{
		"the prefix":          {s, Update{Prefix: new("g"), By: "bob"}, "", false, true},
		"a bad prefix":        {s, Update{Prefix: new("g__")}, "invalid_request prefix", false, false},
		"another version":     {s, Update{Version: 2}, "version_conflict ", false, false},
		"its version":         {s, Update{Version: 3, Timeout: new(time.Second)}, "", false, true},
		"the path":            {s, Update{URL: new("https://files.example/v2"), By: "bob"}, "", true, true},
		"the port, as it was": {s, Update{URL: new("https://FILES.example:443/mcp"), By: "bob"}, "", true, true},
		"the port":            {s, Update{URL: new("https://files.example:444/mcp"), By: "bob"}, "invalid_request credential", false, false},
		"the scheme":          {s, Update{URL: new("http://files.example/mcp"), By: "bob"}, "invalid_request credential", false, false},
		"the host":            {s, Update{URL: new("https://evil.example/mcp"), By: "bob"}, "invalid_request credential", false, false},
		"the host, without":   {s, Update{URL: new("https://evil.example/mcp"), NoCredential: true, By: "bob"}, "", true, false},
		"the host, with":      {s, Update{URL: new("https://evil.example/mcp"), Credential: &Offer{}, By: "bob"}, "", true, true},
		"the host, of none":   {bare, Update{URL: new("https://evil.example/mcp"), By: "bob"}, "", true, false},
		"a command":           {bare, Update{Command: new("git"), By: "bob"}, "", true, false},
		"a command, with":     {s, Update{Command: new("git"), By: "bob"}, "invalid_request credential", false, false},
		"both":                {s, Update{Command: new("git"), URL: new("https://a.example")}, "invalid_request url", false, false},
		"with and without":    {s, Update{Credential: &Offer{}, NoCredential: true}, "invalid_request remove_credential", false, false},
	} {
		next, err := test.from.update(&test.update, later)
		if got := field(err); got != test.refused {
			t.Errorf("%s: %q, want %q", name, got, test.refused)
			continue
		}
		if err != nil {
			if next.Version != 3 {
				t.Errorf("%s: refused, and changed to %+v", name, next)
			}
			continue
		}
		if next.Moved(&test.from) != test.moved || (next.MovedBy == "bob") != test.moved || (next.Credential.Custody != "") != test.kept {
			t.Errorf("%s: %+v", name, next)
		}
		if next.Version != 4 || !next.UpdatedAt.Equal(later) || next.CreatedBy != "ada" || !next.CreatedAt.Equal(noon) {
			t.Errorf("%s: %+v", name, next)
		}
	}
}

func TestHeader(t *testing.T) {
	for _, test := range []struct {
		offer                        Offer
		header, scheme, refusedField string
	}{
		{Offer{}, "Authorization", "Bearer", ""},
		{Offer{Header: "authorization"}, "authorization", "Bearer", ""},
		{Offer{Scheme: new("")}, "Authorization", "", ""},
		{Offer{Header: "X-Api-Key"}, "X-Api-Key", "", ""},
		{Offer{Header: "X-Api-Key", Scheme: new("Key")}, "X-Api-Key", "Key", ""},
		{Offer{Header: "Host"}, "", "", "credential.header"},
		{Offer{Header: "MCP-Protocol-Version"}, "", "", "credential.header"},
		{Offer{Header: "Proxy-Authorization"}, "", "", "credential.header"},
		{Offer{Header: "transfer-encoding"}, "", "", "credential.header"},
		{Offer{Header: "Cookie"}, "", "", "credential.header"},
	} {
		header, scheme, err := test.offer.header()
		e, _ := errors.AsType[*apierr.Error](err)
		if header != test.header || scheme != test.scheme || (e != nil) != (test.refusedField != "") {
			t.Errorf("%+v: %q, %q, %v", test.offer, header, scheme, err)
		}
	}
}

func TestCheckPlace(t *testing.T) {
	for name, test := range map[string]struct {
		isNew   bool
		servers int
		holder  string
		want    error
	}{
		"new": {true, 199, "", nil}, "too many": {true, 200, "", ErrTooMany}, "one of the most": {false, 200, "", nil}, "a prefix twice": {false, 1, "docs", ErrPrefix},
	} {
		if err := CheckPlace(test.isNew, test.servers, test.holder); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
