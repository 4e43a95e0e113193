package control

import (
	"net/http"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// alertRules are the rules of an organization.
type alertRules struct {
	Organization string       `json:"organization_id"`
	Rules        []alert.Rule `json:"rules"`
}

var errNoRules = apierr.Invalid("rules", "is required; send an empty list for no rules")

// settingOrganization returns the organization of the path, or for customers that of the header.
func settingOrganization(r *http.Request) (string, error) {
	organization, field := r.PathValue("organization_id"), "organization_id"
	if organization == "" {
		organization, field = r.Header.Get(caller.HeaderOrganization), caller.HeaderOrganization
	}
	if organization == "" || len(organization) > 128 || !caller.Printable(organization) {
		return "", apierr.Invalid(field, "must be printable ASCII without spaces, from 1 to 128 characters")
	}
	return organization, identifiers(field, organization)
}

// settingAuthor returns the author of a change of rules: an operator, or the key with which a customer calls.
func settingAuthor(r *http.Request, l *chain.Line) alert.Author {
	by := author(r, l)
	made := alert.Author{Name: by.Name, Request: by.Request, At: by.At}
	if r.PathValue("organization_id") != "" {
		return made
	}
	if key := r.Header.Get(caller.HeaderKey); key != "" && caller.Printable(key) {
		made.Name, made.Key = key, key
	}
	if user := r.Header.Get(caller.HeaderUser); caller.Printable(user) {
		made.User = user
	}
	return made
}

func (a *API) getAlertRules(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	organization, err := settingOrganization(r)
	if err != nil {
		return err
	}
	return a.writeAlertRules(w, r, organization)
}

// writeAlertRules answers the rules of an organization.
func (a *API) writeAlertRules(w http.ResponseWriter, r *http.Request, organization string) error {
	rules, err := a.options.Alerts.Get(r.Context(), organization)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, alertRules{organization, rules})
}

func (a *API) putAlertRules(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	organization, err := settingOrganization(r)
	if err != nil {
		return err
	}
	return a.setAlertRules(w, r, settingAuthor(r, l), organization)
}

// setAlertRules replaces the rules of an organization with those of the body.
func (a *API) setAlertRules(w http.ResponseWriter, r *http.Request, by alert.Author, organization string) error {
	var body struct {
		Organization string        `json:"organization_id"` // may repeat the organization, as the response does
		Rules        *[]alert.Rule `json:"rules"`
	}
	if err := read(w, r, &body); err != nil {
		return err
	}
	if _, err := (caller.Caller{Organization: organization}).OrganizationOf(body.Organization); err != nil {
		return err
	}
	if body.Rules == nil {
		return errNoRules
	}
	if err := a.options.Alerts.Set(r.Context(), by, organization, *body.Rules); err != nil {
		return err
	}
	return write(w, http.StatusOK, alertRules{organization, *body.Rules})
}

func (a *API) deleteAlertRules(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	organization, err := settingOrganization(r)
	if err != nil {
		return err
	}
	if err := a.options.Alerts.Remove(r.Context(), settingAuthor(r, l), organization); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
