package control

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/screen"
	"switchyard.dev/services/platform/spelling"
)

// maxBody bounds an operator's request body in bytes.
const maxBody = 64 << 10

const (
	defaultLimit = 50
	maxLimit     = 200
)

// read decodes a JSON body. It refuses unknown fields and fields of the wrong type by their paths.
func read(w http.ResponseWriter, r *http.Request, into any) error {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return apierr.New(apierr.KindTooLarge, apierr.ReasonTooLarge, fmt.Sprintf("body: larger than %d bytes", maxBody))
	}
	text = bytes.TrimSpace(text)
	if err == nil && len(text) == 0 { // no body means an empty one
		return nil
	}
	if err != nil || !jsoncheck.Valid(text) {
		return apierr.Invalid("body", "must be one JSON object") // The cause would repeat values.
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if decoder.Decode(into) == nil {
		return nil
	}
	return cmp.Or(mismatch(text, reflect.TypeOf(into), ""), error(apierr.Invalid("body", "does not fit this request")))
}

// identifiers refuses fields (name, value, …) whose value looks like a key, because they are stored, shown and
// logged.
func identifiers(fields ...string) error {
	for field := range slices.Chunk(fields, 2) {
		if screen.IDLooksLikeKey(field[1]) {
			return apierr.Invalid(field[0], "seems to hold a key; send an identifier")
		}
	}
	return nil
}

func write(w http.ResponseWriter, status int, answer any) error {
	text, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // an error means that the client has disconnected
	return nil
}

// page is the position and the size of a page of a list.
type page[T any] struct {
	value T
	limit int
}

// readPage reads limit and cursor from the query, which may hold only these and the named parameters.
func readPage[T any](r *http.Request, names ...string) (q url.Values, p page[T], err error) {
	q, err = url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, p, apierr.Invalid("query", "is malformed")
	}
	for name := range q {
		switch {
		case name == "limit" || name == "cursor" || name == "tag" && slices.Contains(names, name): // checked by their readers
		case !slices.Contains(names, name):
			hint := spelling.Hint(name, "parameters", append(slices.Clone(names), "limit", "cursor"))
			return nil, p, unknownName("query", "", name, "is not a parameter of this request"+hint)
		case !caller.Printable(q.Get(name)):
			return nil, p, apierr.Invalid(name, "must be printable ASCII without spaces, at most 256 characters")
		}
		if err := identifiers(name, q.Get(name)); name != "cursor" && name != "tag" && err != nil {
			return nil, p, err
		}
	}
	p.limit = defaultLimit
	if q.Has("limit") {
		p.limit, err = strconv.Atoi(q.Get("limit"))
		if err != nil || p.limit < 1 || p.limit > maxLimit {
			return nil, p, apierr.Invalid("limit", "must be a number from 1 to 200")
		}
	}
	if text := q.Get("cursor"); text != "" {
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || json.Unmarshal(raw, &p.value) != nil || bytes.Contains(raw, []byte(`\u0000`)) {
			return nil, p, apierr.Invalid("cursor", "is not a next_cursor of this operation")
		}
	}
	return q, p, nil
}

// cursor returns the opaque cursor of the position after a value.
func cursor(value any) string {
	raw, _ := json.Marshal(value) // strings and numbers always encode
	return base64.RawURLEncoding.EncodeToString(raw)
}
