package approver

import (
	"cmp"
	"context"
	"errors"

	"switchyard.dev/services/platform/apierr"
)

// ReasonNotApprover is the error reason for a person who is not in the group that decides.
const ReasonNotApprover apierr.Reason = "not_an_approver"

// ErrNotApprover refuses a person who is not, or no longer, in the group that decides.
var ErrNotApprover = apierr.New(apierr.KindForbidden, ReasonNotApprover, "only members of the group that decides on this call may decide")

// GroupReader reads the groups of an organization, as Groups does.
type GroupReader interface {
	Get(ctx context.Context, organization string) ([]Group, error)
}

// Members checks that a person who decides is currently a member of the group that decides.
type Members struct {
	groups  GroupReader
	gateway Gateway
}

// NewMembers returns Members that reads these groups, and approvals from the gateway.
func NewMembers(groups GroupReader, gateway Gateway) *Members { return &Members{groups, gateway} }

// Check returns ErrNotApprover unless a user is a member of an organization's group. An empty group is the default
// group.
func (m *Members) Check(ctx context.Context, organization, group, user string) error {
	groups, err := m.groups.Get(ctx, organization)
	if err != nil {
		return err
	}
	g := Find(groups, cmp.Or(group, Default))
	if g == nil || g.Member(user) == nil {
		return ErrNotApprover
	}
	return nil
}

// CheckNamed checks a user whom the holder of a scope names as the decider. It returns ErrNotApprover if the approval's
// group exists and the user is not a member. Without such a group the scope alone is enough. For an approval that the
// gateway does not have it returns nil, because the gateway itself refuses the decision.
func (m *Members) CheckNamed(ctx context.Context, organization, ref, user string) error {
	groups, err := m.groups.Get(ctx, organization)
	if err != nil || len(groups) == 0 {
		return err
	}
	found, err := m.present(ctx, organization, ref)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return apierr.Unavailable("the service that decides is away; try again", err)
	}
	if g := Find(groups, found.Group); g != nil && g.Member(user) == nil {
		return ErrNotApprover
	}
	return nil
}

// present returns an approval as it is at the gateway, or ErrGone.
func (m *Members) present(ctx context.Context, organization, ref string) (Present, error) {
	if !reference.MatchString(ref) {
		return Present{}, ErrGone
	}
	return m.gateway.Approval(ctx, organization, ref)
}
