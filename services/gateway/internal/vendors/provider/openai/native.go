package openai

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

// relay returns the caller's body with the members that the gateway sets: the model, whether and how to stream, the
// token limit by the name that the server supports, the nearest effort that the model accepts, and corrections of calls
// made by other vendors that the server would refuse. Every other field stays byte for byte. asked reports whether the caller wants the chunk that holds the
// usage.
func (p *Provider) relay(chat *provider.Chat, stream bool) (body json.RawMessage, asked bool, err error) {
	text := chat.Native.Body
	if !jsoncheck.Valid(text) || !gjson.ParseBytes(text).IsObject() {
		return nil, false, &provider.Error{Class: apierr.ClassPolicy, Text: "the request is not a JSON object"}
	}
	model, err := json.Marshal(chat.Model)
	if err != nil {
		return nil, false, &provider.Error{Class: apierr.ClassPolicy, Text: "the model's name can't be encoded as JSON", Cause: err}
	}
	own := gjson.ParseBytes(text)
	var options gjson.Result
	limit, repair := p.limitName(own), p.needsRepair(chat)
	out := make([]byte, 0, len(text)+len(model)+64)
	out = append(append(out, `{"model":`...), model...)
	own.ForEach(func(key, value gjson.Result) bool {
		name := key.Raw
		// A duplicate field, or one in other letters, must not override the gateway's.
		switch folded := strings.ToLower(key.Str); {
		case folded == "model", folded == "stream":
			return true
		case folded == "stream_options":
			options = value
			return true
		case limit != "" && (key.Str == "max_tokens" || key.Str == "max_completion_tokens"):
			name = limit
		case repair && key.Str == "messages":
			value.Raw = p.repaired(value)
		case key.Str == "reasoning_effort":
			value.Raw = p.acceptedEffort(chat.Model, value)
		}
		out = append(append(append(append(out, ','), name...), ':'), value.Raw...)
		return true
	})
	if stream {
		out, asked = p.appendStream(out, options)
	}
	return append(out, '}'), asked, nil
}

// limitName returns the server's name of the token limit, quoted, or "" if the caller gave both names or none, and
// nothing is to be renamed.
func (p *Provider) limitName(own gjson.Result) string {
	short, long := own.Get("max_tokens").Exists(), own.Get("max_completion_tokens").Exists()
	switch {
	case short == long:
		return ""
	case p.traits.completionTokens:
		return `"max_completion_tokens"`
	}
	return `"max_tokens"`
}

// appendStream requests a stream, with usage if the server accepts options. The caller's other options stay.
func (p *Provider) appendStream(out []byte, options gjson.Result) ([]byte, bool) {
	out = append(out, `,"stream":true`...)
	if !p.traits.streamUsage {
		return out, true // There is no chunk of the gateway's to hide.
	}
	out = append(out, `,"stream_options":{"include_usage":true`...)
	asked := false
	if options.IsObject() {
		options.ForEach(func(key, value gjson.Result) bool {
			if strings.EqualFold(key.Str, "include_usage") {
				asked = value.Type == gjson.True
				return true
			}
			out = append(append(append(append(out, ','), key.Raw...), ':'), value.Raw...)
			return true
		})
	}
	return append(out, '}'), asked
}
