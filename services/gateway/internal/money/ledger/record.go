package ledger

import (
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// appendRecord appends the entry's JSON, as encoding/json would write it except for the order of members. It is written
// by hand because every completion waits for it. Members that are zero are left out: absent and zero decode alike.
func (e *Entry) appendRecord(dst []byte) []byte {
	o := jsontext.Begin(dst)
	o.Text("id", e.ID.String())
	o.TextNonEmpty("request_id", e.RequestID)
	o.TextNonEmpty("organization_id", e.Organization)
	o.TextNonEmpty("key_id", e.Key)
	o.TextNonEmpty("service", e.Service)
	o.TextNonEmpty("run_id", e.Run)
	o.TextNonEmpty("operation", e.Operation)
	o.TextNonEmpty("requested_provider", e.RequestedProvider)
	o.TextNonEmpty("requested_model", e.RequestedModel)
	o.TextNonEmpty("requested_goal", e.RequestedGoal)
	o.TextNonEmpty("provider", e.Provider)
	o.TextNonEmpty("model", e.Model)
	o.TextNonEmpty("credential", e.Credential)
	o.TextNonEmpty("credential_fingerprint", e.Fingerprint)
	o.BoolIfTrue("substituted", e.Substituted)
	o.BoolIfTrue("cache_hit", e.CacheHit)
	o.IntNonZero("attempts", int64(e.Attempts))
	o.Name("usage")
	o.Out = appendUsage(o.Out, &e.Usage)
	o.TextNonEmpty("usage_state", string(e.State))
	o.IntNonZero("cost_pico_usd", int64(e.Cost))
	o.TextNonEmpty("price_version", e.PriceVersion)
	o.TextNonEmpty("outcome", string(e.Outcome))
	o.Time("started_at", e.StartedAt)
	o.Time("ended_at", e.EndedAt)
	return o.End()
}

func appendUsage(dst []byte, u *provider.Usage) []byte {
	o := jsontext.Begin(dst)
	for _, b := range provider.Buckets() {
		o.IntNonZero(b.Member(), *b.Of(u))
	}
	return o.End()
}
