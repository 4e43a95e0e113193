package toolrule

import (
	"net/url"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/governance/pattern"
)

// SamplingBy is who answers a server that asks for a completion.
type SamplingBy string

// The ways of answering.
const (
	// SamplingByClient passes the question to the caller, if it declares that it answers such.
	SamplingByClient SamplingBy = "client"
	// SamplingByGateway answers it by a completion of the gateway, which the caller's organization pays.
	SamplingByGateway SamplingBy = "gateway"
	// SamplingRefused answers it with an error.
	SamplingRefused SamplingBy = "refuse"
)

// Bounds of completions for servers, where the policy has no others.
const (
	DefaultSamplingTokens   = 4096
	DefaultSamplingRequests = 4
)

// Sampling is how servers' questions for completions are answered. All but By are of SamplingByGateway.
type Sampling struct {
	By SamplingBy
	// Model is the model that answers, as requests name it; empty for the one that is chosen of the server's hints, or the
	// gateway's default.
	Model string
	// MaxTokens bounds the tokens of an answer, MaxRequests the completions of one call.
	MaxTokens, MaxRequests int
	// Tools reports whether the server may offer tools of its own to the model.
	Tools bool
}

// SamplingRule is how the questions of the servers are answered that its patterns match.
type SamplingRule struct {
	// Servers are patterns of servers' ids, as those of a Rule.
	Servers []string
	// Sampling has zero values for the defaults.
	Sampling
}

// ElicitationRule says to where the servers may send callers that its patterns match.
type ElicitationRule struct {
	// Servers are patterns of servers' ids, as those of a Rule.
	Servers []string
	// Origins are schemes and hosts of URLs, such as "https://bank.example".
	Origins []string
}

// Sampling returns how the questions of a server are answered: as the first rule that matches it says, and by the caller
// where none does.
func (r *Rules) Sampling(server string) Sampling {
	if r != nil {
		for i := range r.sampling {
			if rule := &r.sampling[i]; isOf(rule.Servers, server) {
				return rule.Sampling
			}
		}
	}
	return Sampling{By: SamplingByClient}
}

// MayOpen reports whether a server may send callers to the URLs of an origin other than its own: whether the first rule
// that matches the server has it. Without one it may not.
func (r *Rules) MayOpen(server, origin string) bool {
	if r == nil {
		return false
	}
	normal, ok := NormalOrigin(origin)
	if !ok {
		return false
	}
	for i := range r.elicitation {
		if rule := &r.elicitation[i]; isOf(rule.Servers, server) {
			return slices.Contains(rule.Origins, normal)
		}
	}
	return false
}

// isOf reports whether a server's id matches patterns in lower case, or there are none.
func isOf(patterns []string, server string) bool {
	return len(patterns) == 0 || pattern.Any(patterns, strings.ToLower(server))
}

// NormalOrigin returns an origin in the form in which origins are compared: in lower case, without the scheme's own port.
// It is not ok for a text that is no origin of http or https.
func NormalOrigin(text string) (string, bool) {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Hostname() == "" || strings.Contains(text, "#") {
		return "", false
	}
	own := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	if own == "" {
		return "", false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Host), own)
	return u.Scheme + "://" + strings.TrimSuffix(host, ":"), true
}

// setInputs keeps what the settings say of what servers ask of callers, with the defaults in place.
func (r *Rules) setInputs(settings *Settings) {
	for _, rule := range settings.Sampling {
		rule.Servers = lower(rule.Servers)
		if rule.By == SamplingByGateway {
			if rule.MaxTokens == 0 {
				rule.MaxTokens = DefaultSamplingTokens
			}
			if rule.MaxRequests == 0 {
				rule.MaxRequests = DefaultSamplingRequests
			}
		}
		r.sampling = append(r.sampling, rule)
	}
	for _, rule := range settings.Elicitation {
		normal := ElicitationRule{Servers: lower(rule.Servers)}
		for _, origin := range rule.Origins {
			if o, ok := NormalOrigin(origin); ok {
				normal.Origins = append(normal.Origins, o)
			}
		}
		r.elicitation = append(r.elicitation, normal)
	}
}
