package api

import (
	"net/http"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/platform/secret"
)

// Key is a product key as operators see it.
type Key struct {
	ID string `json:"id"`
	// Key is the key itself, in the answer that created it and nowhere else.
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
}

// NewKey renders a key, with its text if it was just made.
func NewKey(k apikey.Key, text secret.Value) Key {
	return Key{
		ID: k.ID, Key: text.Reveal(), Organization: k.Organization, Product: k.Product, Permissions: k.Permissions,
		Name: k.Name, Environment: k.Environment, CreatedAt: k.CreatedAt,
		ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, LastUsedAt: k.LastUsedAt,
	}
}

func (a *API) createKey(w http.ResponseWriter, r *http.Request, _ *line) error {
	var body struct {
		Organization string              `json:"organization_id"`
		Product      string              `json:"product"`
		Permissions  []apikey.Permission `json:"permissions"`
		Name         string              `json:"name"`
		Environment  string              `json:"environment"`
		ExpiresAt    *time.Time          `json:"expires_at"`
	}
	if err := read(w, r, &body); err != nil {
		return err
	}
	key, text, err := a.options.Book.Create(r.Context(), apikey.Request(body))
	if err != nil {
		return err
	}
	return write(w, http.StatusCreated, NewKey(key, text))
}

func (a *API) listKeys(w http.ResponseWriter, r *http.Request, _ *line) error {
	q, after, err := readPage[string](r, "organization_id")
	if err != nil {
		return err
	}
	keys, err := a.options.Book.List(r.Context(), q.Get("organization_id"), after.value, after.limit+1)
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

func (a *API) revokeKey(w http.ResponseWriter, r *http.Request, _ *line) error {
	if err := a.options.Book.Revoke(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
