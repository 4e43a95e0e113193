// Package adapter lists the dialects that the gateway speaks to vendors. It is the only list of them: the policy checks
// names and operations by it, and internal/app makes each provider's adapter by it.
package adapter

import (
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/gateway/internal/vendors/provider/bedrock"
	"switchyard.dev/services/gateway/internal/vendors/provider/cohere"
	"switchyard.dev/services/gateway/internal/vendors/provider/gemini"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/gateway/internal/vendors/provider/sandbox"
	"switchyard.dev/services/gateway/internal/vendors/provider/vertex"
)

var dialects = []provider.Dialect{
	openai.Dialect(), anthropic.Dialect(), gemini.Dialect(), bedrock.Dialect(), vertex.Dialect(), cohere.Dialect(), sandbox.Dialect(),
}

// Find returns the dialect of a name; false where there is none.
func Find(name string) (provider.Dialect, bool) {
	for _, d := range dialects {
		if d.Name == name {
			return d, true
		}
	}
	return provider.Dialect{}, false
}

// Names returns the names of all dialects as an enumeration in English, such as "openai, anthropic or sandbox".
func Names() string {
	names := make([]string, len(dialects))
	for i, d := range dialects {
		names[i] = d.Name
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
