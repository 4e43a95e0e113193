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

// Members checks that a person whom a key names as the decider is in the group that decides, see approver.Members.
type Members interface {
	CheckNamed(ctx context.Context, organization, ref, user string) error
}

// decideApprovals is the scope that decides on approvals.
const decideApprovals apikey.Permission = "ai:approvals:decide"

// maxDecision bounds the body of a decision in bytes.
const maxDecision = 64 << 10

// decisionBody is a decision as the holder of a key sends it, in either spelling of JSON names. The holder can't say by
// which way it is made.
type decisionBody struct {
	Organization      string `json:"organization_id,omitempty"`
	OrganizationCamel string `json:"organizationId,omitempty"`
	DecidedBy         string `json:"decided_by,omitempty"`
	DecidedByCamel    string `json:"decidedBy,omitempty"`
	Reason            string `json:"reason,omitempty"`
}

// decided returns the function that makes the body to send of a decision on an approval; nil for other routes. The
// function refuses a person who may not decide, and encodes what it has checked, so that the gateway gets nothing else.
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
		if d.DecidedBy != "" { // The gateway refuses a decision without a name.
			if err := a.options.Members.CheckNamed(ctx, organization, ref, d.DecidedBy); err != nil {
				return nil, err
			}
		}
		return json.Marshal(d)
	}
}

// readDecision decodes the body of a decision. An empty body is an empty decision.
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
		return d, apierr.Invalid("body", "must be one JSON object with decided_by and, optionally, reason")
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
