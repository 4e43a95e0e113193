package ledger

import (
	"encoding/json"
	"strconv"
	"time"
)

// appendRecord appends the entry's JSON, as encoding/json would write it but for
// its order. It is written out here since every completion waits for it.
func (e *Entry) appendRecord(dst []byte) []byte {
	o := object{append(dst, '{')}
	o.text("id", e.ID.String())
	o.text("request_id", e.RequestID)
	o.text("organization_id", e.Organization)
	o.text("key_id", e.Key)
	o.text("service", e.Service)
	o.text("run_id", e.Run)
	o.text("operation", e.Operation)
	o.text("requested_provider", e.RequestedProvider)
	o.text("requested_model", e.RequestedModel)
	o.text("requested_goal", e.RequestedGoal)
	o.text("provider", e.Provider)
	o.text("model", e.Model)
	o.text("credential", e.Credential)
	o.text("credential_fingerprint", e.Fingerprint)
	o.flag("substituted", e.Substituted)
	o.flag("cache_hit", e.CacheHit)
	o.number("attempts", int64(e.Attempts))
	o.usage(e)
	o.text("usage_state", string(e.State))
	o.number("cost_pico_usd", int64(e.Cost))
	o.text("price_version", e.PriceVersion)
	o.text("outcome", string(e.Outcome))
	o.moment("started_at", e.StartedAt)
	o.moment("ended_at", e.EndedAt)
	return append(o.out, '}')
}

// object is a JSON object in the making. What is zero is left out: absent and
// zero read the same.
type object struct{ out []byte }

func (o *object) name(name string) {
	if o.out[len(o.out)-1] != '{' {
		o.out = append(o.out, ',')
	}
	o.out = append(append(append(o.out, '"'), name...), '"', ':')
}

func (o *object) text(name, value string) {
	if value == "" {
		return
	}
	o.name(name)
	if !plain(value) {
		quoted, _ := json.Marshal(value) // A string has no failure.
		o.out = append(o.out, quoted...)
		return
	}
	o.out = append(append(append(o.out, '"'), value...), '"')
}

// plain tells whether text stands in JSON as it is.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func (o *object) number(name string, value int64) {
	if value != 0 {
		o.name(name)
		o.out = strconv.AppendInt(o.out, value, 10)
	}
}

func (o *object) flag(name string, value bool) {
	if value {
		o.name(name)
		o.out = append(o.out, "true"...)
	}
}

func (o *object) moment(name string, value time.Time) {
	o.name(name)
	o.out = append(value.AppendFormat(append(o.out, '"'), time.RFC3339Nano), '"')
}

func (o *object) usage(e *Entry) {
	u := &e.Usage
	o.name("usage")
	o.out = append(o.out, '{')
	o.number("Input", u.Input)
	o.number("CacheRead", u.CacheRead)
	o.number("CacheWrite", u.CacheWrite)
	o.number("CacheWriteLong", u.CacheWriteLong)
	o.number("ImageInput", u.ImageInput)
	o.number("AudioInput", u.AudioInput)
	o.number("Output", u.Output)
	o.number("Reasoning", u.Reasoning)
	o.number("ImageOutput", u.ImageOutput)
	o.number("AudioOutput", u.AudioOutput)
	o.number("Images", u.Images)
	o.out = append(o.out, '}')
}
