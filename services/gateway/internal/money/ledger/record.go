package ledger

import (
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// appendRecord appends the entry's JSON, as encoding/json would write it but for
// its order. It is written out here since every completion waits for it. What is
// zero is left out: absent and zero read the same.
func (e *Entry) appendRecord(dst []byte) []byte {
	o := jsontext.Begin(dst)
	o.Text("id", e.ID.String())
	o.TextIfAny("request_id", e.RequestID)
	o.TextIfAny("organization_id", e.Organization)
	o.TextIfAny("key_id", e.Key)
	o.TextIfAny("service", e.Service)
	o.TextIfAny("run_id", e.Run)
	o.TextIfAny("operation", e.Operation)
	o.TextIfAny("requested_provider", e.RequestedProvider)
	o.TextIfAny("requested_model", e.RequestedModel)
	o.TextIfAny("requested_goal", e.RequestedGoal)
	o.TextIfAny("provider", e.Provider)
	o.TextIfAny("model", e.Model)
	o.TextIfAny("credential", e.Credential)
	o.TextIfAny("credential_fingerprint", e.Fingerprint)
	o.BoolIfAny("substituted", e.Substituted)
	o.BoolIfAny("cache_hit", e.CacheHit)
	o.IntIfAny("attempts", int64(e.Attempts))
	o.Name("usage")
	o.Out = appendUsage(o.Out, &e.Usage)
	o.TextIfAny("usage_state", string(e.State))
	o.IntIfAny("cost_pico_usd", int64(e.Cost))
	o.TextIfAny("price_version", e.PriceVersion)
	o.TextIfAny("outcome", string(e.Outcome))
	o.Moment("started_at", e.StartedAt)
	o.Moment("ended_at", e.EndedAt)
	return o.End()
}

func appendUsage(dst []byte, u *provider.Usage) []byte {
	o := jsontext.Begin(dst)
	o.IntIfAny("Input", u.Input)
	o.IntIfAny("CacheRead", u.CacheRead)
	o.IntIfAny("CacheWrite", u.CacheWrite)
	o.IntIfAny("CacheWriteLong", u.CacheWriteLong)
	o.IntIfAny("ImageInput", u.ImageInput)
	o.IntIfAny("AudioInput", u.AudioInput)
	o.IntIfAny("Output", u.Output)
	o.IntIfAny("Reasoning", u.Reasoning)
	o.IntIfAny("ImageOutput", u.ImageOutput)
	o.IntIfAny("AudioOutput", u.AudioOutput)
	o.IntIfAny("Images", u.Images)
	return o.End()
}
