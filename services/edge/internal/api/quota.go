package api

import (
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/quota"
)

// callerOf returns what the calls of a key count under.
func callerOf(key *apikey.Key) quota.Caller {
	return quota.Caller{Key: key.Chain(), Organization: key.Organization, KeyPlan: key.Plan, OrganizationPlan: key.OrganizationPlan}
}
