package provider

import "net/http"

// Dialect is a wire format that vendors speak. Each package below states its own; package adapter lists them.
type Dialect struct {
	// Name of the dialect in the policy.
	Name string
	// Operations that the format can carry.
	Operations OperationSet
	// TokenInput reports whether texts to embed may be given as token numbers.
	TokenInput bool
	// Reasons reports whether a vendor's model, by its own name, is known to reason. Nil is for a dialect whose models don't.
	Reasons func(model string) bool
	// Forms returns the forms of requests that a provider of these settings takes for a model, by the vendor's own name of
	// it, as their callers wrote them; see Native. Nil is only the form of the dialect's own name.
	Forms func(s Settings) func(model string) []string
	// Hints returns which hints a provider of these settings takes for a model, by the vendor's own name of it, in a request
	// that was written in another dialect. Nil is none.
	Hints func(s Settings) func(model string) Hint
	// Terms returns what a model refuses, by the vendor's own name of it. Nil means nothing.
	Terms func(model string) Terms
	// Relays are the APIs whose calls its providers relay: the names of dialects.
	Relays []string
	// New returns the adapter of a provider. It fails on settings that no call could be made with, such as a base URL
	// that is not absolute.
	New func(s Settings) (Provider, error)
}

// Settings are what a policy says of a provider, for the adapter of its dialect. A dialect ignores those of others.
type Settings struct {
	// Name of the provider in the policy.
	Name string
	// BaseURL is the address of the vendor's API. A dialect adds the version of the API only if the URL has no path.
	BaseURL string
	// KeyHeader is the header that carries a key instead of the dialect's own; "Authorization" carries it with the scheme
	// Bearer.
	KeyHeader string
	// Headers go with every call, in place of the adapter's own of the same name.
	Headers []Header
	// APIVersion is the version of Azure's deployments API, for example "2024-10-21" (openai dialect); models are then the
	// names of deployments, and the default of KeyHeader is "api-key". Empty for all other servers.
	APIVersion string
	// StreamUsage reports whether the server accepts stream_options, by which usage is requested in streams (openai
	// dialect). Nil means the known behavior of the host, which is true for most.
	StreamUsage *bool
	// ShortToolIDs reports that the server checks requests with Mistral's validator (openai dialect): IDs of tool calls are
	// nine letters or digits, and the user's turn doesn't follow results. It is implied for Mistral's own host.
	ShortToolIDs bool
	// Responses reports whether the server has the Responses API, so that it takes requests of that form as they came (openai
	// dialect). Nil means the known behavior of the host.
	Responses *bool
	// Batches reports whether the server runs batch jobs (openai and anthropic dialects); see BatchRunner. Nil means the
	// known behavior of the host.
	Batches *bool
	// ReasoningStyle is how the server is told how much to think (openai dialect): one of the dialect's styles. Empty means
	// the known style of the host, which is "effort" for most.
	ReasoningStyle string
	// OutputLimits are the models' limits of output tokens, by the vendor's names of them.
	OutputLimits map[string]int
	// Transport reaches the vendor; see package network.
	Transport http.RoundTripper
}

// FormsOf returns the forms of requests that a provider of these settings takes for a model as their callers wrote them.
func (d Dialect) FormsOf(s Settings) func(model string) []string {
	if d.Forms == nil {
		return Forms(d.Name)
	}
	return d.Forms(s)
}

// Forms returns a function that returns the same forms for every model.
func Forms(forms ...string) func(model string) []string {
	return func(string) []string { return forms }
}

// HintsOf returns which hints a provider of these settings takes for a model.
func (d Dialect) HintsOf(s Settings) func(model string) Hint {
	if d.Hints == nil {
		return Takes(0)
	}
	return d.Hints(s)
}

// TermsOf returns what a model refuses.
func (d Dialect) TermsOf(model string) Terms {
	if d.Terms == nil {
		return Terms{}
	}
	return d.Terms(model)
}

// Takes returns a function that returns the same hints for every model.
func Takes(hints Hint) func(model string) Hint { return func(string) Hint { return hints } }
