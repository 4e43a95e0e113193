package pricelist

import (
	"cmp"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/host"
)

// listedHost returns the host of an entry, whose provider the list writes in many ways ("vertex_ai-anthropic_models",
// "bedrock_converse").
func listedHost(provider string) string {
	for _, family := range []string{"vertex_ai", "bedrock"} {
		if strings.HasPrefix(provider, family) {
			return family
		}
	}
	return cmp.Or(host.Named(provider).Name, provider)
}

// listedName returns the name of the model that a key of the list means: without the host before it.
func listedName(key, provider, host string) string {
	prefix, rest, found := strings.Cut(key, "/")
	if found && (prefix == provider || prefix == host) {
		return rest
	}
	return key
}
