package anthropic

import (
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// requestFields are those of a request. Source: Anthropic API reference, "Messages". The tier standard_only asks for the capacity
// that other vendors serve from unless they are asked for another.
var requestFields = dialect.Fields{
	{Name: "model", Class: dialect.Handled},
	{Name: "stream", Class: dialect.Handled},
	{Name: "messages", Class: dialect.Read},
	{Name: "system", Class: dialect.Read},
	{Name: "max_tokens", Class: dialect.Read},
	{Name: "temperature", Class: dialect.Read, Hint: provider.HintTemperature},
	{Name: "top_p", Class: dialect.Read, Hint: provider.HintTopP},
	{Name: "stop_sequences", Class: dialect.Read, Hint: provider.HintStop},
	{Name: "thinking", Class: dialect.Read},
	{Name: "output_config", Class: dialect.Read},
	{Name: "output_format", Class: dialect.Read},
	{Name: "tools", Class: dialect.Read},
	{Name: "tool_choice", Class: dialect.Read},

	{Name: "metadata", Class: dialect.Hint, Hint: provider.HintEndUser, Defaults: []string{"{}"}},
	{Name: "cache_control", Class: dialect.Hint},
	{Name: "top_k", Class: dialect.Hint, Hint: provider.HintTopK},
	{Name: "context_management", Class: dialect.Hint},

	{Name: "service_tier", Class: dialect.Own, Defaults: []string{`"auto"`, `"standard_only"`}},
	{Name: "container", Class: dialect.Own, Open: true},
	{Name: "mcp_servers", Class: dialect.Own, Open: true, Defaults: []string{"[]"}},
	{Name: "speed", Class: dialect.Own, Surcharge: true, Defaults: []string{`"standard"`}},
	{Name: "inference_geo", Class: dialect.Own, Surcharge: true},
	{Name: "fallbacks", Class: dialect.Own},
}

// Fields returns the fields of a request.
func (Dialect) Fields() dialect.Fields { return requestFields }
