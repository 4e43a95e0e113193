package policy

import (
	"cmp"

	"switchyard.dev/services/gateway/internal/vendors/modelid"
)

// identity returns the identity of the model: the one that the policy states, or else that of the vendor's name, or of
// the policy's. It is empty if none is known.
func (m *Model) identity() string {
	if m.Identity != "" {
		return cmp.Or(modelid.Of(m.Identity), m.Identity)
	}
	return cmp.Or(modelid.Of(m.Upstream), modelid.Of(m.Name))
}

// IsSameModel reports whether two models are the same: by their identities where both are known, and by their names
// otherwise.
func IsSameModel(name, identity, otherName, otherIdentity string) bool {
	if identity != "" && otherIdentity != "" {
		return identity == otherIdentity
	}
	return name == otherName
}

// IsSameModel reports whether two offers are of one model.
func (o *Offer) IsSameModel(other *Offer) bool {
	return IsSameModel(o.Model, o.Identity, other.Model, other.Identity)
}

// HostsOf returns the offers of the model that a name stands for, by all providers that list the model under any of its
// names, in the policy's order. The name is one of those that package identity knows, or an identity that the policy
// states.
func (p *Policy) HostsOf(name string) []*Offer { return p.byIdentity[cmp.Or(modelid.Of(name), name)] }
