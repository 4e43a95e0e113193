package portal

import (
	"slices"
	"strings"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/route"
)

// Scopes of the portal's own operations. All others are those of keys.
const (
	ScopeKeysRead  apikey.Permission = "keys:read"
	ScopeKeysWrite apikey.Permission = "keys:write"
)

func isKeys(scope apikey.Permission) bool { return scope == ScopeKeysRead || scope == ScopeKeysWrite }

// grantsOf returns what scopes grant on customers' routes. It reports false for an unknown scope.
func grantsOf(scopes []apikey.Permission) (apikey.Grants, bool) {
	return apikey.ScopeGrants(slices.DeleteFunc(slices.Clone(scopes), isKeys))
}

// reaches reports whether a scope or a whole area opens a route that is scoped by an organization, an owner or a user.
func reaches(table route.Table, scope apikey.Permission, whose string) bool {
	grants := apikey.GrantsOf([]apikey.Permission{scope})
	return slices.ContainsFunc(table.Routes, func(r route.Route) bool { return r.ScopedBy == whose && r.Need().MetBy(grants) == nil })
}

// Grants returns what the session may do on customers' routes.
func (s *Session) Grants() apikey.Grants {
	grants, _ := grantsOf(s.Scopes) // A session of another release may have unknown scopes, and then has none.
	return grants
}

// MayKeys reports whether the session has a scope of keys; to write includes to read.
func (s *Session) MayKeys(scope apikey.Permission) bool {
	return slices.Contains(s.Scopes, scope) || slices.Contains(s.Scopes, ScopeKeysWrite)
}

// MayGive reports whether the session has all permissions of a key: each scope itself or its whole area, and a whole area
// as such.
func (s *Session) MayGive(permissions []apikey.Permission) bool {
	_, ok := apikey.ScopeGrants(permissions)
	return ok && !slices.ContainsFunc(permissions, func(p apikey.Permission) bool {
		area, _, _ := strings.Cut(string(p), ":")
		whole := apikey.Permission(area + ":*")
		return !slices.Contains(s.Scopes, p) && (p.Explicit() || !slices.Contains(s.Scopes, whole))
	})
}

// Products returns the products of the routes that the session may call, sorted.
func (s *Session) Products(table route.Table) (products []string) {
	for _, r := range table.Routes {
		if r.Need().MetBy(s.Grants()) == nil {
			products = append(products, r.Products...)
		}
	}
	slices.Sort(products)
	return slices.Compact(products)
}
