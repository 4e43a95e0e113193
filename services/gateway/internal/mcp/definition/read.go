package definition

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"switchyard.dev/services/gateway/internal/governance/principal"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
)

// Bounds of a listing.
const (
	// MaxTools is how many tools a server may have.
	MaxTools = 1000
	// MaxText is the size of a definition in bytes.
	MaxText = 64 << 10
	// MaxListing is the size of all definitions of a server in bytes.
	MaxListing = 4 << 20
	// MaxName is the length of a tool's name in characters, of up to 4 bytes each.
	MaxName = 128
)

// Errors of listings that are not stored.
var (
	ErrTooLarge = errors.New("the listing is too large")
	ErrInvalid  = errors.New("the listing is not valid")
)

// Listing is what a server lists, as it sent it.
type Listing struct {
	// ProtocolVersion is the version of the protocol that the server speaks.
	ProtocolVersion string
	Tools           []Listed
}

// Listed is a tool of a listing.
type Listed struct {
	Name string
	// Text is the whole definition, a JSON object.
	Text json.RawMessage
}

// Canonical returns the canonical form (RFC 8785) of a JSON value, or an error that holds nothing of it.
type Canonical func(text []byte) ([]byte, error)

// Read returns the definitions of a listing, sorted by name. The error is ErrTooLarge or ErrInvalid with a text that
// repeats no text of the server's: a listing is stored as a whole or not at all.
func Read(canonical Canonical, server toolserver.Key, l *Listing) ([]Definition, error) {
	if len(l.Tools) > MaxTools {
		return nil, fmt.Errorf("%w: more than %d tools", ErrTooLarge, MaxTools)
	}
	definitions, size := make([]Definition, len(l.Tools)), 0
	for i, tool := range l.Tools {
		size += len(tool.Text)
		switch {
		case len(tool.Text) > MaxText:
			return nil, fmt.Errorf("%w: tool %d has a definition of more than %d bytes", ErrTooLarge, i+1, MaxText)
		case size > MaxListing:
			return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxListing)
		case !nameable(tool.Name):
			return nil, fmt.Errorf("%w: tool %d has no name of 1 to %d visible characters", ErrInvalid, i+1, MaxName)
		}
		form, err := canonical(tool.Text)
		if err == nil && form[0] != '{' {
			err = errors.New("must be an object")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: the definition of tool %d: %s", ErrInvalid, i+1, Visible(err.Error(), maxCause))
		}
		definitions[i] = Definition{Server: server, Name: tool.Name, Digest: digest(server, tool.Name, form), Text: tool.Text}
	}
	slices.SortFunc(definitions, func(a, b Definition) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(definitions); i++ {
		if definitions[i].Name == definitions[i-1].Name {
			return nil, fmt.Errorf("%w: two tools have the same name", ErrInvalid)
		}
	}
	return definitions, nil
}

// maxCause bounds the part of an error that says where a definition is wrong, in characters.
const maxCause = 120

func nameable(name string) bool {
	return name != "" && utf8.ValidString(name) && utf8.RuneCountInString(name) <= MaxName && !strings.ContainsFunc(name, principal.Invisible)
}

// digest returns the digest of a definition in its canonical form.
func digest(server toolserver.Key, name string, form []byte) Digest {
	return sum("tool-definition", []byte(server.ID), []byte(name), form)
}

// Sum returns the digest of a listing: of the names and digests of its tools, which are sorted by name.
func Sum(definitions []Definition) Digest {
	return sumOf(definitions, func(d *Definition) (string, *Digest) { return d.Name, &d.Digest })
}

func sumOf[T any](tools []T, identity func(*T) (name string, digest *Digest)) Digest {
	parts := make([][]byte, 0, 2*len(tools))
	for i := range tools {
		name, digest := identity(&tools[i])
		parts = append(parts, []byte(name), digest[:])
	}
	return sum("tool-listing", parts...)
}

// sum returns the SHA-256 of parts within a domain. Each part is behind its length, so that no two divisions of the same
// bytes are alike.
func sum(domain string, parts ...[]byte) (d Digest) {
	hash := sha256.New()
	hash.Write([]byte("v1\x00" + domain + "\x00"))
	for _, part := range parts {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		hash.Write(part)
	}
	hash.Sum(d[:0])
	return d
}

// Visible returns the beginning of a text, at most so many characters of it, in which characters that people don't see
// as themselves are written as \u{…}. What is not UTF-8 becomes U+FFFD.
func Visible(text string, most int) string {
	var out strings.Builder
	for _, r := range text {
		if most--; most < 0 {
			out.WriteString("…")
			break
		}
		if principal.Invisible(r) {
			out.WriteString(`\u{` + strings.ToUpper(strconv.FormatInt(int64(r), 16)) + `}`)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// compact returns a JSON value in one line, without HTML escapes.
func compact(v any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return "" // What was decoded can be encoded.
	}
	return strings.TrimSuffix(out.String(), "\n")
}
