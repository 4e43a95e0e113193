// Package host knows the public hosts of models by the domains of their APIs. Price lists name hosts in one way and
// OpenTelemetry's conventions in another.
package host

import (
	"net/url"
	"slices"
	"strings"
)

// Host serves models of one or more vendors.
type Host struct {
	// Name is that of the public price list.
	Name string
	// Convention is the value of gen_ai.provider.name in OpenTelemetry's conventions for generative AI; Name if they list
	// none.
	Convention string
	// aliases are other names that the list or operators have for it, domains those of its API.
	aliases []string
	domains []string
}

var hosts = []Host{
	{Name: "openai", aliases: []string{"text-completion-openai"}, domains: []string{"api.openai.com"}},
	{Name: "azure", Convention: "azure.ai.openai", aliases: []string{"azure_text"}, domains: []string{".openai.azure.com"}},
	{Name: "azure_ai", Convention: "azure.ai.inference", aliases: []string{"foundry"}, domains: []string{".services.ai.azure.com"}},
	{Name: "anthropic", aliases: []string{"claude"}, domains: []string{"api.anthropic.com"}},
	{Name: "gemini", Convention: "gcp.gemini", aliases: []string{"google"}, domains: []string{"generativelanguage.googleapis.com"}},
	{Name: "vertex_ai", Convention: "gcp.vertex_ai", aliases: []string{"vertex"}, domains: []string{"aiplatform.googleapis.com"}},
	{Name: "bedrock", Convention: "aws.bedrock", aliases: []string{"aws"}},
	{Name: "cohere", aliases: []string{"cohere_chat"}, domains: []string{"api.cohere.com", "api.cohere.ai"}},
	{Name: "mistral", Convention: "mistral_ai", domains: []string{"api.mistral.ai"}},
	{Name: "deepseek", domains: []string{"api.deepseek.com"}},
	{Name: "xai", Convention: "x_ai", aliases: []string{"grok"}, domains: []string{"api.x.ai"}},
	{Name: "groq", domains: []string{"api.groq.com"}},
	{Name: "cerebras", domains: []string{"api.cerebras.ai"}},
	{Name: "openrouter", domains: []string{"openrouter.ai"}},
	{Name: "together_ai", aliases: []string{"together"}, domains: []string{"api.together.xyz", "api.together.ai"}},
	{Name: "fireworks_ai", aliases: []string{"fireworks"}, domains: []string{"api.fireworks.ai"}},
	{Name: "perplexity", domains: []string{"api.perplexity.ai"}},
	{Name: "voyage", domains: []string{"api.voyageai.com"}},
	{Name: "jina_ai", aliases: []string{"jina"}, domains: []string{"api.jina.ai"}},
}

// Of returns the host of a configured provider: by the domain of its base URL, or else by its own name. A host of the
// operator's own has an empty name.
func Of(provider, baseURL string) Host {
	domain := ""
	if at, err := url.Parse(baseURL); err == nil {
		domain = "." + strings.ToLower(at.Hostname())
	}
	if strings.HasPrefix(domain, ".bedrock-") {
		return Named("bedrock") // bedrock-runtime.us-east-1.amazonaws.com, bedrock-mantle.us-east-1.api.aws
	}
	for i := range hosts {
		for _, suffix := range hosts[i].domains {
			if strings.HasSuffix(domain, "."+strings.TrimPrefix(suffix, ".")) || strings.HasSuffix(domain, "-"+suffix) {
				return hosts[i].complete()
			}
		}
	}
	return Named(provider)
}

// Named returns the host of a name or alias; one with an empty name if there is none.
func Named(name string) Host {
	for i := range hosts {
		if hosts[i].Name == name || slices.Contains(hosts[i].aliases, name) {
			return hosts[i].complete()
		}
	}
	return Host{}
}

func (h Host) complete() Host {
	if h.Convention == "" {
		h.Convention = h.Name
	}
	return h
}
