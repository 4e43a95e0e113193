package policy

import (
	"errors"
	"fmt"
	"strings"

	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Sampling is how the servers are answered that ask for completions; see toolrule.SamplingRule.
type Sampling struct {
	Servers []string `yaml:"servers"`
	// By is "client" (also if absent), "gateway" or "refuse". What follows is for the gateway alone.
	By toolrule.SamplingBy `yaml:"by"`
	// Model is a model's name or "provider/model"; empty for what the server prefers, or the default.
	Model string `yaml:"model"`
	// MaxTokens and MaxRequests are toolrule's defaults where they are 0.
	MaxTokens   int  `yaml:"max_tokens"`
	MaxRequests int  `yaml:"max_requests"`
	Tools       bool `yaml:"tools"`
}

// Elicitation is to where servers may send callers; see toolrule.ElicitationRule.
type Elicitation struct {
	Servers []string `yaml:"servers"`
	Origins []string `yaml:"origins"`
}

// Bounds of what is said of servers' questions.
const (
	mostInputRules, mostOrigins = 100, 100
	mostSampled                 = 64
)

// addInputs adds what is said of servers' questions to the settings, without the names of models; see checkSampled.
func (f *failures) addInputs(t *Tools, settings *toolrule.Settings) {
	if len(t.Sampling) > mostInputRules {
		f.add("tools.sampling", fmt.Errorf("%d are more than %d", len(t.Sampling), mostInputRules))
		t.Sampling = nil
	}
	if len(t.Elicitation) > mostInputRules {
		f.add("tools.elicitation", fmt.Errorf("%d are more than %d", len(t.Elicitation), mostInputRules))
		t.Elicitation = nil
	}
	for i := range t.Sampling {
		s := &t.Sampling[i]
		f.add(fmt.Sprintf("tools.sampling[%d]", i), s.check())
		settings.Sampling = append(settings.Sampling, s.rule())
	}
	for i := range t.Elicitation {
		e := &t.Elicitation[i]
		f.add(fmt.Sprintf("tools.elicitation[%d]", i), e.check())
		settings.Elicitation = append(settings.Elicitation, toolrule.ElicitationRule{Servers: e.Servers, Origins: e.Origins})
	}
}

func (s *Sampling) rule() toolrule.SamplingRule {
	of := toolrule.Sampling{By: toolrule.SamplingByClient}
	switch s.By {
	case toolrule.SamplingByGateway:
		of = toolrule.Sampling{By: s.By, Model: s.Model, MaxTokens: s.MaxTokens, MaxRequests: s.MaxRequests, Tools: s.Tools}
	case toolrule.SamplingRefused:
		of.By = s.By
	case toolrule.SamplingByClient:
	}
	return toolrule.SamplingRule{Servers: s.Servers, Sampling: of}
}

func (s *Sampling) check() error {
	var wrong failures
	wrong.add("servers", checkPatterns(s.Servers))
	switch s.By {
	case "", toolrule.SamplingByClient, toolrule.SamplingRefused:
		if s.Model != "" || s.MaxTokens != 0 || s.MaxRequests != 0 || s.Tools {
			wrong.add("by", errors.New("want gateway, since the entry has model, max_tokens, max_requests or tools"))
		}
	case toolrule.SamplingByGateway:
	default:
		wrong.add("by", errors.New("want client, gateway or refuse"))
	}
	wrong.add("max_tokens", checkCount(s.MaxTokens))
	if s.MaxRequests < 0 || s.MaxRequests > mostSampled {
		wrong.add("max_requests", fmt.Errorf("want 0 to %d", mostSampled))
	}
	return wrong.err()
}

func (e *Elicitation) check() error {
	var wrong failures
	wrong.add("servers", checkPatterns(e.Servers))
	if len(e.Origins) > mostOrigins {
		wrong.add("origins", fmt.Errorf("%d are more than %d", len(e.Origins), mostOrigins))
		return wrong.err()
	}
	for i, origin := range e.Origins {
		if _, ok := toolrule.NormalOrigin(origin); !ok {
			wrong.add(fmt.Sprintf("origins[%d]", i), errors.New("want a scheme and a host, such as https://bank.example"))
		}
	}
	return wrong.err()
}

// checkSampled checks that the models exist that answer servers. The providers are known.
func (p *Policy) checkSampled() error {
	var wrong failures
	for i := range p.tools.Sampling {
		name := p.tools.Sampling[i].Model
		if name != "" && !p.removed(name) && !p.hasChat(name) {
			wrong.add(fmt.Sprintf("tools.sampling[%d].model", i), fmt.Errorf("%q: no provider has such a model for chat", name))
		}
	}
	return wrong.err()
}

// hasChat reports whether a request for chat may name a model.
func (p *Policy) hasChat(name string) bool {
	offers := append(append([]*Offer{}, p.OffersOf(name)...), p.HostsOf(name)...)
	if of, model, found := strings.Cut(name, "/"); found {
		offers = append(offers, p.Offer(provider.Target{Provider: of, Model: model}))
		for _, host := range p.HostsOf(model) {
			if host.Provider == of {
				offers = append(offers, host)
			}
		}
	}
	for _, o := range offers {
		if o != nil && o.Operations.Has(provider.OperationChat) {
			return true
		}
	}
	return false
}
