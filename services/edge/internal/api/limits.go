package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/usertoken"
	"switchyard.dev/services/platform/apidoc"
)

// balanceBody is what an organization has left of its credits.
type balanceBody struct {
	// Cents is the balance in whole cents, rounded down, Pico exactly. Uncovered is what was spent without credits.
	Cents     int64  `json:"balance_cents"`
	Pico      string `json:"balance_pico_usd"`
	Uncovered string `json:"uncovered_pico_usd"`
}

// balance returns what an organization has left; nil if it never had credits.
func (a *API) balance(r *http.Request, organization string) (*balanceBody, error) {
	b, granted, err := a.options.Credits.Balance(r.Context(), organization)
	if err != nil || !granted {
		return nil, err
	}
	return &balanceBody{b.Pico / credit.PicoPerCent, strconv.FormatInt(b.Pico, 10), strconv.FormatInt(b.Uncovered, 10)}, nil
}

const limitsPath = "/product/v1/_meta/limits"

// limitState is a limit as customers see it.
type limitState struct {
	// Of is what counts: the organization, or the key with its rotations.
	Of        string    `json:"of"`
	Meter     string    `json:"meter"`
	Period    string    `json:"period"`
	Kind      string    `json:"kind"`
	Amount    int64     `json:"amount"`
	Used      int64     `json:"used"`
	Remaining int64     `json:"remaining"`
	ResetsAt  time.Time `json:"resets_at"`
	// Price, Overage and OveragePico are of metered limits.
	Price       int64   `json:"price_pico_usd,omitempty"`
	Overage     *int64  `json:"overage,omitempty"`
	OveragePico *string `json:"overage_pico_usd,omitempty"`
}

func newLimitState(s quota.State) limitState {
	state := limitState{
		Of: "organization", Meter: string(s.Meter), Period: string(s.Period), Kind: string(s.Kind),
		Amount: s.Amount, Used: s.Used, Remaining: s.Remaining(), ResetsAt: s.End(), Price: s.Price,
	}
	if s.OfKey {
		state.Of = "key"
	}
	if s.Kind == plan.Metered {
		units, pico := s.Overage(s.Used)
		state.Overage, state.OveragePico = &units, new(pico.String())
	}
	return state
}

// limits returns the plans of a key and its organization, with what is used.
func (a *API) limits(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	who, err := a.identify(w, r)
	if err != nil {
		return err
	}
	l.Organization, l.Key = who.organization, who.name
	key := who.product
	if key == nil {
		return usertoken.ErrScope
	}
	if err := a.admit(w, r, who); err != nil {
		return err
	}
	ofKey, ofOrganization := a.options.Quotas.Plan(callerOf(key))
	answer := struct {
		Organization string       `json:"organization_id"`
		Key          string       `json:"key_id"`
		Plan         *string      `json:"plan"`
		KeyPlan      *string      `json:"key_plan"`
		Limits       []limitState `json:"limits"`
		Credits      *balanceBody `json:"credits"`
	}{Organization: key.Organization, Key: key.ID, Plan: nameOrNil(ofOrganization), KeyPlan: nameOrNil(ofKey), Limits: []limitState{}}
	if answer.Credits, err = a.balance(chain.ForOrganization(r, key.Organization), key.Organization); err != nil {
		return err
	}
	for _, s := range a.options.Quotas.Limits(r.Context(), callerOf(key)) {
		if s.Meter == plan.Credits {
			continue
		}
		answer.Limits = append(answer.Limits, newLimitState(s))
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encode limits: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(text, '\n')) // an error means that the client has disconnected
	return nil
}

// nameOrNil returns nil for no name.
func nameOrNil(name string) *string {
	if name == "" {
		return nil
	}
	return &name
}

// limitsOperation returns the OpenAPI operation of limits.
func limitsOperation(failure any) apidoc.Object {
	number := func(meaning string) apidoc.Object { return apidoc.Object{"type": "integer", "description": meaning} }
	name := func(meaning string) apidoc.Object {
		return apidoc.Object{"type": []any{"string", "null"}, "description": meaning}
	}
	limit := object("A limit of a plan.", apidoc.Object{
		"of":     text("What counts: organization, or key with its rotations."),
		"meter":  text("calls, tokens, cents, deliveries or notifications."),
		"period": text("minute, day or month, in UTC."), "kind": text("hard, soft or metered."),
		"amount": number("What may be used in a period."), "used": number("What was used in this one."),
		"remaining": number("What is left of it."), "resets_at": text("End of the period, in RFC 3339."),
		"price_pico_usd":   number("Of a metered limit: what a unit beyond it costs, in pico-USD; absent for none."),
		"overage":          number("Of a metered limit: what was used beyond it."),
		"overage_pico_usd": text("Of a metered limit: what that costs, an integer in pico-USD."),
	})
	answer := object("The plans that hold for the key.", apidoc.Object{
		"organization_id": text("Organization of the key."), "key_id": text("The key."),
		"plan": name("Plan of the organization."), "key_plan": name("The key's own plan."),
		"limits": apidoc.Object{"type": "array", "items": limit},
		"credits": object("Prepaid credits of the organization; null if it never had any. Exact amounts are integers in pico-USD.", apidoc.Object{
			"balance_cents":    number("What is left, in whole cents."),
			"balance_pico_usd": text("What is left."), "uncovered_pico_usd": text("What was spent without credits."),
		}),
	})
	responses := apidoc.Object{"200": apidoc.Object{
		"description": "The limits.", "content": apidoc.Object{"application/json": apidoc.Object{"schema": answer}},
	}}
	for _, status := range []string{"401", "429", "503"} {
		responses[status] = apidoc.Object{
			"description": refusals[status], "content": apidoc.Object{"application/json": apidoc.Object{"schema": failure}},
		}
	}
	return apidoc.Object{
		"operationId": "get_limits", "summary": "The limits of the key's plans, and what is used of them", "tags": []any{"edge"},
		"security": []any{apidoc.Object{"key": []any{}}}, "responses": responses,
	}
}
