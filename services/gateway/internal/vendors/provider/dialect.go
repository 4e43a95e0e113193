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
	// New returns the adapter of a provider. It fails on settings that no call could be made with, such as a base URL
	// that is not absolute.
	New func(s Settings) (Provider, error)
}

// Settings are what a policy says of a provider, for the adapter of its dialect. A dialect ignores those of others.
type Settings struct {
	// Name of the provider in the policy.
	Name    string
	BaseURL string
	// APIVersion, KeyHeader, StreamUsage and ShortToolIDs are of the openai dialect; see openai.Config.
	APIVersion   string
	KeyHeader    string
	StreamUsage  *bool
	ShortToolIDs bool
	// OutputLimits are the models' limits of output tokens, by the vendor's names of them.
	OutputLimits map[string]int
	// Transport reaches the vendor; see wire.NewTransport.
	Transport http.RoundTripper
}
