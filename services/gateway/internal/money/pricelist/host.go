package pricelist

import (
	"net/url"
	"slices"
	"strings"
)

// hosts are the hosts of models whose prices are looked up: the list's name for the host, other names that the list or
// operators have for it, and the domains of its API.
var hosts = []struct {
	name    string
	aliases []string
	domains []string
}{
	{"openai", []string{"text-completion-openai"}, []string{"api.openai.com"}},
	{"azure", []string{"azure_text"}, []string{".openai.azure.com"}},
	{"azure_ai", []string{"foundry"}, []string{".services.ai.azure.com"}},
	{"anthropic", []string{"claude"}, []string{"api.anthropic.com"}},
	{"gemini", []string{"google"}, []string{"generativelanguage.googleapis.com"}},
	{"vertex_ai", []string{"vertex"}, []string{"aiplatform.googleapis.com"}},
	{"bedrock", []string{"aws"}, nil},
	{"cohere", []string{"cohere_chat"}, []string{"api.cohere.com", "api.cohere.ai"}},
	{"mistral", nil, []string{"api.mistral.ai"}},
	{"deepseek", nil, []string{"api.deepseek.com"}},
	{"xai", []string{"grok"}, []string{"api.x.ai"}},
	{"groq", nil, []string{"api.groq.com"}},
	{"cerebras", nil, []string{"api.cerebras.ai"}},
	{"openrouter", nil, []string{"openrouter.ai"}},
	{"together_ai", []string{"together"}, []string{"api.together.xyz", "api.together.ai"}},
	{"fireworks_ai", []string{"fireworks"}, []string{"api.fireworks.ai"}},
	{"perplexity", nil, []string{"api.perplexity.ai"}},
	{"voyage", nil, []string{"api.voyageai.com"}},
	{"jina_ai", []string{"jina"}, []string{"api.jina.ai"}},
}

// hostOf returns the list's name for the host of a configured provider: by the domain of its base URL, or else by its own
// name. It is empty for a host of the operator's own.
func hostOf(name, baseURL string) string {
	domain := ""
	if at, err := url.Parse(baseURL); err == nil {
		domain = "." + strings.ToLower(at.Hostname())
	}
	if strings.HasPrefix(domain, ".bedrock-") {
		return "bedrock" // bedrock-runtime.us-east-1.amazonaws.com, bedrock-mantle.us-east-1.api.aws
	}
	for _, h := range hosts {
		for _, suffix := range h.domains {
			if strings.HasSuffix(domain, "."+strings.TrimPrefix(suffix, ".")) || strings.HasSuffix(domain, "-"+suffix) {
				return h.name
			}
		}
	}
	return hostNamed(name)
}

// hostNamed returns the host of a name or alias; empty if there is none.
func hostNamed(name string) string {
	for _, h := range hosts {
		if h.name == name || slices.Contains(h.aliases, name) {
			return h.name
		}
	}
	return ""
}

// listedHost returns the host of an entry, whose provider the list writes in many ways ("vertex_ai-anthropic_models",
// "bedrock_converse").
func listedHost(provider string) string {
	for _, family := range []string{"vertex_ai", "bedrock"} {
		if strings.HasPrefix(provider, family) {
			return family
		}
	}
	if host := hostNamed(provider); host != "" {
		return host
	}
	return provider
}

// listedName returns the name of the model that a key of the list means: without the host before it.
func listedName(key, provider, host string) string {
	prefix, rest, found := strings.Cut(key, "/")
	if found && (prefix == provider || prefix == host) {
		return rest
	}
	return key
}
