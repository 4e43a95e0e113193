package apikey

import (
	"context"
	"fmt"

	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// ErrPlan is the error of a plan that does not exist.
var ErrPlan = apierr.Invalid("plan", "there is no plan of this name")

// checkPlan checks the name of a plan; empty is none.
func checkPlan(name string) error {
	if name == "" {
		return nil
	}
	return plan.CheckName("plan", name)
}

// OrganizationPlan returns the name of an organization's own plan, empty for none.
func (m *Manager) OrganizationPlan(ctx context.Context, organization string) (string, error) {
	if !caller.Printable(organization) { // Postgres would refuse the text.
		return "", apierr.NotFound("plan")
	}
	name, err := m.store.OrganizationPlan(ctx, organization)
	if err != nil {
		return "", fmt.Errorf("read plan of organization: %w", err)
	}
	return name, nil
}

// PlanOrganization puts an organization on a plan, or on the default plan for an empty name. Replicas apply it within a
// second.
func (m *Manager) PlanOrganization(ctx context.Context, by Actor, organization, name string) error {
	if organization == "" || !caller.Printable(organization) {
		return apierr.Invalid("organization_id", "must be printable ASCII, at most 256 characters")
	}
	if err := checkPlan(name); err != nil {
		return err
	}
	entry := Entry{At: present(), Actor: by, Action: ActionPlan, Organization: organization, Details: map[string]any{"plan": name}}
	if name == "" {
		entry.Action, entry.Details = ActionRemovePlan, map[string]any{}
	}
	if err := m.store.SetOrganizationPlan(ctx, organization, name, entry); err != nil {
		return fmt.Errorf("put organization on plan: %w", err)
	}
	m.log.InfoContext(ctx, "organization put on plan", "organization", organization, "plan", name)
	return nil
}
