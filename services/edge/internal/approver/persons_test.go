package approver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/decision"
	"switchyard.dev/services/platform/apierr"
)

// house has the groups of the organization acme, and a gateway with an approval for each group.
type house struct {
	memory

	groups []approver.Group
	away   error
	mints  []string // "member way ref"
	shown  []string // tokens
}

func (h *house) Get(_ context.Context, organization string) ([]approver.Group, error) {
	if organization != "acme" {
		return nil, nil
	}
	return h.groups, nil
}

// Approval returns an approval for each reference "of-GROUP" of acme.
func (h *house) Approval(_ context.Context, organization, ref string) (approver.Present, error) {
	var group string
	if n, _ := fmt.Sscanf(ref, "of-%s", &group); n != 1 || organization != "acme" {
		return approver.Present{}, approver.ErrGone
	}
	return approver.Present{State: approver.Waiting, Group: group}, h.away
}

func (h *house) Mint(_ context.Context, _, ref, member, way string) (string, error) {
	h.mints = append(h.mints, member+" "+way+" "+ref)
	return fmt.Sprint("token-", len(h.mints)), nil
}

func (h *house) Show(_ context.Context, token string) (*decision.Decision, error) {
	h.shown = append(h.shown, token)
	return &decision.Decision{Status: "pending"}, nil
}

func (h *house) Decide(ctx context.Context, token string, _ decision.Choice) (*decision.Decision, error) {
	return h.Show(ctx, token)
}

func newHouse() *house {
	return &house{groups: []approver.Group{
		{Name: "default", Members: []approver.Member{{User: "ann"}}}, {Name: "ops", Members: []approver.Member{{User: "bob"}}},
	}}
}

func TestMembersDecide(t *testing.T) {
	h := newHouse()
	m := approver.NewMembers(h, h)
	for _, tt := range []struct {
		organization, group, user string
		member, named             bool // named is by the holder of a scope
	}{
		{"acme", "default", "ann", true, true},
		{"acme", "", "ann", true, true},
		{"acme", "default", "bob", false, false},
		{"acme", "default", "Ann", false, false},
		{"acme", "default", "ann ", false, false},
		{"acme", "ops", "ann", false, false},
		{"acme", "removed", "ann", false, true},
		{"other", "default", "ann", false, true},
	} {
		if err := m.Check(t.Context(), tt.organization, tt.group, tt.user); (err == nil) != tt.member || err != nil && !errors.Is(err, approver.ErrNotApprover) {
			t.Errorf("%+v: %v", tt, err)
		}
		if tt.group == "" {
			continue
		}
		if err := m.CheckNamed(t.Context(), tt.organization, "of-"+tt.group, tt.user); (err == nil) != tt.named || err != nil && !errors.Is(err, approver.ErrNotApprover) {
			t.Errorf("%+v, named: %v", tt, err)
		}
	}
	for _, ref := range []string{"unknown", "../admin", ""} {
		if err := m.CheckNamed(t.Context(), "acme", ref, "eve"); err != nil {
			t.Errorf("%q is the gateway's to refuse: %v", ref, err)
		}
	}
	h.away = errAway
	if e, ok := errors.AsType[*apierr.Error](m.CheckNamed(t.Context(), "acme", "of-ops", "eve")); !ok || e.Kind != apierr.KindUnavailable {
		t.Errorf("without the gateway anyone decides: %v", e)
	}
}

// An identified person decides as a current member of the group. A page that is loaded again takes no further token,
// because the gateway gives a person only a few.
func TestPersonsDecide(t *testing.T) {
	h := newHouse()
	p := approver.NewPersons(approver.NewMembers(h, h), h, h)
	ann := approver.Person{Organization: "acme", User: "ann", Way: approver.ViaPortal}
	for range 50 {
		if _, err := p.Show(t.Context(), ann, "of-default"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Decide(t.Context(), ann, "of-default", decision.Choice{Decision: "deny"}); err != nil {
		t.Fatal(err)
	}
	ann.Way = approver.ViaUserToken
	if _, err := p.Show(t.Context(), ann, "of-default"); err != nil {
		t.Fatal(err)
	}
	if want := []string{"ann portal of-default", "ann user_token of-default"}; fmt.Sprint(h.mints) != fmt.Sprint(want) || h.shown[50] != "token-1" || h.shown[51] != "token-2" {
		t.Errorf("minted %v, shown %v", h.mints, h.shown)
	}
	for name, who := range map[string]approver.Person{
		"another": {Organization: "acme", User: "bob"}, "of another organization": {Organization: "other", User: "ann"}, "no one": {Organization: "acme"},
	} {
		if _, err := p.Show(t.Context(), who, "of-default"); err == nil {
			t.Errorf("%s looks", name)
		}
		if _, err := p.Decide(t.Context(), who, "of-default", decision.Choice{Decision: "deny"}); err == nil {
			t.Errorf("%s decides", name)
		}
	}
	h.groups[0].Members[0].User = "bob"
	if _, err := p.Decide(t.Context(), ann, "of-default", decision.Choice{Decision: "deny"}); !errors.Is(err, approver.ErrNotApprover) {
		t.Errorf("ann has left the group, and decides: %v", err)
	}
	if len(h.mints) != 2 || len(h.shown) != 52 {
		t.Errorf("minted %v, shown %d times", h.mints, len(h.shown))
	}
}
