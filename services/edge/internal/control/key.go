package control

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/secret"
)

// Key is a product key as operators see it.
type Key struct {
	ID string `json:"id"`
	// Key is the key itself, in the response that created it and nowhere else.
	Key          string              `json:"key,omitempty"`
	Organization string              `json:"organization_id"`
	Product      string              `json:"product"`
	Permissions  []apikey.Permission `json:"permissions"`
	Name         string              `json:"name"`
	Environment  string              `json:"environment"`
	CreatedAt    time.Time           `json:"created_at"`
	ExpiresAt    *time.Time          `json:"expires_at"`
	RevokedAt    *time.Time          `json:"revoked_at"`
	LastUsedAt   *time.Time          `json:"last_used_at"`
	RateLimit    *RateLimit          `json:"rate_limit"`
	Terms
	// Plan is the key's own plan; null is none.
	Plan *string `json:"plan"`
	// Origin is the first key of the chain of rotations, ReplacedBy the next one.
	Origin     string `json:"origin,omitempty"`
	ReplacedBy string `json:"replaced_by,omitempty"`
}

// RateLimit is a limit as operators see it: a number of requests per window, and how many of them at once.
type RateLimit struct {
	Requests      int `json:"requests"`
	WindowSeconds int `json:"window_seconds"`
	// Burst defaults to Requests.
	Burst int `json:"burst"`
}

// NewKey converts a key, with its text if it was just created.
func NewKey(k apikey.Key, text secret.Value) Key {
	return Key{
		ID: k.ID, Key: text.Reveal(), Organization: k.Organization, Product: k.Product, Permissions: k.Permissions,
		Name: k.Name, Environment: k.Environment, CreatedAt: k.CreatedAt,
		ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, LastUsedAt: k.LastUsedAt,
		RateLimit: newRateLimit(k.Limit), Terms: newTerms(k.Terms), Plan: orNil(k.Plan), Origin: k.Origin, ReplacedBy: k.ReplacedBy,
	}
}

func newRateLimit(l limit.Limit) *RateLimit {
	if l == (limit.Limit{}) {
		return nil
	}
	return &RateLimit{Requests: l.Requests, WindowSeconds: int(l.Window / time.Second), Burst: l.Burst}
}

// maxSeconds keeps a number of seconds within a time.Duration.
const maxSeconds = 1 << 32

func (r *RateLimit) limit() (limit.Limit, error) {
	switch {
	case r == nil:
		return limit.Limit{}, nil
	case *r == RateLimit{}:
		return limit.Limit{}, apierr.Invalid("rate_limit", "requests and window_seconds are required")
	case r.WindowSeconds > maxSeconds:
		return limit.Limit{}, apierr.Invalid("rate_limit", "window_seconds is out of range")
	}
	l := limit.Limit{Requests: r.Requests, Window: time.Duration(r.WindowSeconds) * time.Second, Burst: r.Burst}
	if l.Burst == 0 {
		l.Burst = l.Requests
	}
	if err := l.Check(); err != nil {
		return limit.Limit{}, apierr.Invalid("rate_limit", err.Error())
	}
	return l, nil
}

// actor returns the author of an operator's request, for the audit.
func actor(r *http.Request, l *chain.Line) apikey.Actor {
	name := l.Caller
	if name == "" {
		name = "loopback" // authentication is off
	}
	return apikey.Actor{Name: name, Request: r.Header.Get(caller.HeaderRequest)}
}

func (a *API) createKey(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	var body struct {
		Organization string              `json:"organization_id"`
		Product      string              `json:"product"`
		Permissions  []apikey.Permission `json:"permissions"`
		Environment  string              `json:"environment"`

		Name            string         `json:"name"`
		ExpiresAt       *time.Time     `json:"expires_at"`
		RateLimit       *RateLimit     `json:"rate_limit"`
		TokensPerMinute *int64         `json:"tpm"`
		Models          []string       `json:"models"`
		Budget          *apikey.Budget `json:"budget"`
		Class           *apikey.Class  `json:"class"`
		Plan            *string        `json:"plan"`
	}
	if err := read(w, r, &body); err != nil {
		return err
	}
	if err := identifiers("organization_id", body.Organization, "product", body.Product, "environment", body.Environment); err != nil {
		return err
	}
	bound, terms, err := settings{
		body.Name, body.ExpiresAt, body.RateLimit, body.TokensPerMinute, body.Models, body.Budget, body.Class, body.Plan,
	}.read()
	if err != nil {
		return err
	}
	key, text, err := a.options.Keys.Create(r.Context(), actor(r, l), apikey.Request{
		Organization: body.Organization, Product: body.Product, Permissions: body.Permissions, Name: body.Name,
		Environment: body.Environment, ExpiresAt: body.ExpiresAt, Limit: bound, Terms: terms, Plan: orZero(body.Plan),
	})
	if err != nil {
		return err
	}
	return write(w, http.StatusCreated, NewKey(key, text))
}

func (a *API) getKey(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	key, err := a.options.Keys.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, NewKey(key, secret.Value{}))
}

func (a *API) listKeys(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	q, after, err := readPage[string](r, "organization_id")
	if err != nil {
		return err
	}
	return a.writeKeys(w, r, q.Get("organization_id"), after)
}

// writeKeys answers with a page of an organization's keys; of all organizations if it is empty.
func (a *API) writeKeys(w http.ResponseWriter, r *http.Request, organization string, after page[string]) error {
	keys, err := a.options.Keys.List(r.Context(), organization, after.value, after.limit+1)
	if err != nil {
		return err
	}
	answer := struct {
		Keys       []Key  `json:"keys"`
		NextCursor string `json:"next_cursor"`
	}{Keys: []Key{}}
	for i, key := range keys {
		if i == after.limit {
			answer.NextCursor = cursor(keys[i-1].ID)
			break
		}
		answer.Keys = append(answer.Keys, NewKey(key, secret.Value{}))
	}
	return write(w, http.StatusOK, answer)
}

// maybe is an optional field of a change: absent, null or a value.
type maybe[T any] struct {
	given bool
	value *T
}

// UnmarshalJSON implements json.Unmarshaler; it is not called for an absent field.
func (m *maybe[T]) UnmarshalJSON(text []byte) error {
	m.given = true
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(&m.value)
}

// of returns the type of the value.
func (maybe[T]) of() reflect.Type { return reflect.TypeFor[T]() }

func (a *API) updateKey(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	var body change
	if err := read(w, r, &body); err != nil {
		return err
	}
	update, err := body.update()
	if err != nil {
		return err
	}
	return a.changeKey(w, r, l, update)
}

func (a *API) replaceKey(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	var body *settings
	if err := read(w, r, &body); err != nil {
		return err
	}
	if body == nil { // It would remove all settings, which {} asks for.
		return apierr.Invalid("body", "is required")
	}
	update, err := body.replacement()
	if err != nil {
		return err
	}
	return a.changeKey(w, r, l, update)
}

func (a *API) changeKey(w http.ResponseWriter, r *http.Request, l *chain.Line, update apikey.Update) error {
	key, err := a.options.Keys.Update(r.Context(), actor(r, l), r.PathValue("id"), update)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, NewKey(key, secret.Value{}))
}

// defaultOverlap is how long a rotated key stays valid by default.
const defaultOverlap = 24 * time.Hour

func (a *API) rotateKey(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	var body struct {
		Overlap   *int64     `json:"overlap_seconds"`
		ExpiresAt *time.Time `json:"expires_at"`
	}
	if err := read(w, r, &body); err != nil {
		return err
	}
	rotation := apikey.Rotation{Overlap: defaultOverlap, ExpiresAt: body.ExpiresAt}
	if body.Overlap != nil {
		if *body.Overlap < 0 || *body.Overlap > maxSeconds {
			return apierr.Invalid("overlap_seconds", "is out of range")
		}
		rotation.Overlap = time.Duration(*body.Overlap) * time.Second
	}
	key, text, err := a.options.Keys.Rotate(r.Context(), actor(r, l), r.PathValue("id"), rotation)
	if err != nil {
		return err
	}
	return write(w, http.StatusCreated, NewKey(key, text))
}

func (a *API) revokeKey(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	if err := a.options.Keys.Revoke(r.Context(), actor(r, l), r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
