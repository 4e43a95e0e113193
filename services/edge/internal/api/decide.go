package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/jsoncheck"
)

// Members checks that a person whom a key names as the one who decides is in the group that decides, see approver.Members.
type Members interface {
	CheckNamed(ctx context.Context, organization, ref, user string) error
}

// decideApprovals is the scope of decisions on approvals.
const decideApprovals apikey.Permission = "ai:approvals:decide"

// maxDecision bounds the body of a decision in bytes.
const maxDecision = 64 << 10

// decisionBody is what the holder of a key says of a decision, by either spelling of JSON names. How it is made is not the
// holder's to say.
type decisionBody struct {
	Organization      string `json:"organization_id,omitempty"`
	OrganizationCamel string `json:"organizationId,omitempty"`
	DecidedBy         string `json:"decided_by,omitempty"`
	DecidedByCamel    string `json:"decidedBy,omitempty"`
	Reason            string `json:"reason,omitempty"`
}

// decided returns what is sent of the body of a decision on an approval in an organization, once the person whom it names
// may decide; nil for other routes. What is checked is what is sent: the body is written anew.
func (a *API) decided(r route.Route, organization, ref string) func(ctx context.Context, sent io.Reader) ([]byte, error) {
	if a.options.Members == nil || r.Scope != decideApprovals || !r.HasBody() {
		return nil
	}
	return func(ctx context.Context, sent io.Reader) ([]byte, error) {
		d, err := readDecision(sent)
		if err != nil {
			return nil, err
		}
		if _, err := (caller.Caller{Organization: organization}).OrganizationOf(d.Organization); err != nil {
			return nil, err
		}
		if d.DecidedBy != "" { // The gateway refuses a decision of no one.
			if err := a.options.Members.CheckNamed(ctx, organization, ref, d.DecidedBy); err != nil {
				return nil, err
			}
		}
		return json.Marshal(d)
	}
}

// readDecision reads the body of a decision.
func readDecision(sent io.Reader) (d decisionBody, err error) {
	text, err := io.ReadAll(io.LimitReader(sent, maxDecision+1))
	if err != nil && !errors.Is(err, io.EOF) {
		return d, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	switch {
	case len(text) > maxDecision:
		return d, apierr.New(apierr.KindTooLarge, apierr.ReasonTooLarge, "body: larger than 65536 bytes")
	case len(bytes.TrimSpace(text)) == 0:
		return d, nil
	case !jsoncheck.Valid(text) || decoder.Decode(&d) != nil:
		return d, apierr.Invalid("body", "must be one JSON object with decided_by and, if wanted, reason")
	case d.DecidedBy != "" && d.DecidedByCamel != "" || d.Organization != "" && d.OrganizationCamel != "":
		return d, apierr.Invalid("body", "must name each field once")
	}
	if d.DecidedByCamel != "" {
		d.DecidedBy, d.DecidedByCamel = d.DecidedByCamel, ""
	}
	if d.OrganizationCamel != "" {
		d.Organization, d.OrganizationCamel = d.OrganizationCamel, ""
	}
	return d, nil
}
