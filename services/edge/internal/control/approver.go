package control

import (
	"net/http"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/portal"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// Scopes of groups of approvers.
const (
	readApprovers  apikey.Permission = "ai:approvers:read"
	writeApprovers apikey.Permission = "ai:approvers:write"
)

// approverGroups are the groups of an organization.
type approverGroups struct {
	Organization string           `json:"organization_id"`
	Groups       []approver.Group `json:"groups"`
}

var errNoGroups = apierr.Invalid("groups", "is required; an empty list is no groups")

func (a *API) getApprovers(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	organization, err := settingOrganization(r)
	if err != nil {
		return err
	}
	return a.writeApprovers(w, r, organization)
}

// writeApprovers answers the groups of an organization.
func (a *API) writeApprovers(w http.ResponseWriter, r *http.Request, organization string) error {
	groups, err := a.options.Approvers.Get(r.Context(), organization)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, approverGroups{organization, groups})
}

func (a *API) putApprovers(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	organization, err := settingOrganization(r)
	if err != nil {
		return err
	}
	return a.setApprovers(w, r, settingAuthor(r, l), organization)
}

// setApprovers replaces the groups of an organization with those of the body.
func (a *API) setApprovers(w http.ResponseWriter, r *http.Request, by alert.Author, organization string) error {
	var body struct {
		Organization string            `json:"organization_id"` // may repeat the organization, as the response does
		Groups       *[]approver.Group `json:"groups"`
	}
	if err := read(w, r, &body); err != nil {
		return err
	}
	if _, err := (caller.Caller{Organization: organization}).OrganizationOf(body.Organization); err != nil {
		return err
	}
	if body.Groups == nil {
		return errNoGroups
	}
	if err := a.options.Approvers.Set(r.Context(), by, organization, *body.Groups); err != nil {
		return err
	}
	return write(w, http.StatusOK, approverGroups{organization, *body.Groups})
}

var errOwnersApprovers = apierr.New(apierr.KindForbidden, apikey.ReasonPermissionDenied,
	"groups of approvers are the organization's, and this session is an owner's")

// approverRoutes returns the customers' operations of groups of approvers, which this role answers itself, by path and
// method. The portal and the operators' console have them.
func (a *API) approverRoutes() map[string]map[string]sessionHandler {
	if a.options.Approvers == nil {
		return nil
	}
	return map[string]map[string]sessionHandler{"/product/v1/ai/approvers": {
		http.MethodGet: ofOrganization(readApprovers, errOwnersApprovers, func(w http.ResponseWriter, r *http.Request, _ *chain.Line, s *portal.Session) error {
			return a.writeApprovers(w, r, s.Organization)
		}),
		http.MethodPut: ofOrganization(writeApprovers, errOwnersApprovers, func(w http.ResponseWriter, r *http.Request, _ *chain.Line, s *portal.Session) error {
			return a.setApprovers(w, r, sessionAuthor(r, s), s.Organization)
		}),
	}}
}
