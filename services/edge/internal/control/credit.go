package control

import (
	"net/http"
	"strconv"
	"time"

	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// grantBody is a grant of credits as operators see it. Exact amounts are decimal integers in pico-USD, as texts.
type grantBody struct {
	ID             string    `json:"id"`
	Cents          int64     `json:"amount_cents"`
	Spent          string    `json:"spent_pico_usd"`
	Left           string    `json:"left_pico_usd"`
	Note           string    `json:"note"`
	IdempotencyKey string    `json:"idempotency_key"`
	CreatedAt      time.Time `json:"created_at"`
	ExpiresAt      time.Time `json:"expires_at"`
}

func newGrantBody(g credit.Grant) grantBody {
	return grantBody{
		g.ID, g.Pico / credit.PicoPerCent, strconv.FormatInt(g.Spent, 10), strconv.FormatInt(g.Pico-g.Spent, 10), g.Note, g.IdempotencyKey,
		g.CreatedAt, g.ExpiresAt,
	}
}

// balanceBody is what an organization has left.
type balanceBody struct {
	// Cents is the balance in whole cents, rounded down, Pico exactly. Uncovered is what was spent without credits.
	Cents     int64  `json:"balance_cents"`
	Pico      string `json:"balance_pico_usd"`
	Uncovered string `json:"uncovered_pico_usd"`
}

func newBalanceBody(b credit.Balance) balanceBody {
	return balanceBody{b.Pico / credit.PicoPerCent, strconv.FormatInt(b.Pico, 10), strconv.FormatInt(b.Uncovered, 10)}
}

// organizationOf returns the organization in the path of an operator's request.
func organizationOf(r *http.Request) (string, error) {
	organization := r.PathValue("organization_id")
	if organization == "" || !caller.Printable(organization) {
		return "", apierr.Invalid("organization_id", "must be printable ASCII, at most 256 characters")
	}
	return organization, identifiers("organization_id", organization)
}

func (a *API) grantCredits(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	var body struct {
		Cents          int64     `json:"amount_cents"`
		ExpiresAt      time.Time `json:"expires_at"`
		Note           string    `json:"note"`
		IdempotencyKey string    `json:"idempotency_key"`
	}
	if err := read(w, r, &body); err != nil {
		return err
	}
	organization, err := organizationOf(r)
	if err != nil {
		return err
	}
	if err := identifiers("note", body.Note, "idempotency_key", body.IdempotencyKey); err != nil {
		return err
	}
	by := actor(r, l)
	granted, added, err := a.options.Credits.Grant(r.Context(), credit.Author{Name: by.Name, Request: by.Request}, credit.Request{
		Organization: organization, Cents: body.Cents, ExpiresAt: body.ExpiresAt, Note: body.Note, IdempotencyKey: body.IdempotencyKey,
	})
	switch {
	case err != nil:
		return err
	case !added:
		return write(w, http.StatusOK, newGrantBody(granted))
	}
	return write(w, http.StatusCreated, newGrantBody(granted))
}

func (a *API) credits(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	organization, err := organizationOf(r)
	if err != nil {
		return err
	}
	_, after, err := readPage[string](r)
	if err != nil {
		return err
	}
	balance, _, err := a.options.Credits.Balance(r.Context(), organization)
	if err != nil {
		return err
	}
	grants, err := a.options.Credits.List(r.Context(), organization, after.value, after.limit+1)
	if err != nil {
		return err
	}
	answer := struct {
		Organization string `json:"organization_id"`
		balanceBody
		Grants     []grantBody `json:"grants"`
		NextCursor string      `json:"next_cursor"`
	}{Organization: organization, balanceBody: newBalanceBody(balance), Grants: []grantBody{}}
	for i, g := range grants {
		if i == after.limit {
			answer.NextCursor = cursor(grants[i-1].ID)
			break
		}
		answer.Grants = append(answer.Grants, newGrantBody(g))
	}
	return write(w, http.StatusOK, answer)
}
