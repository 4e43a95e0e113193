package provider

import "slices"

// Hint is a kind of setting that no answer depends on: a provider that doesn't take it serves without. A set of kinds is
// their union.
type Hint uint16

// The kinds of hints that some dialects have besides the caller's. All others have none of these bits.
const (
	// HintCachePoint is where a prefix for the vendor's prompt cache ends; see Part.Cache.
	HintCachePoint Hint = 1 << iota
	// HintCacheKey is Chat.CacheKey.
	HintCacheKey
	// HintEndUser is Chat.EndUser.
	HintEndUser
	// HintSeed is Chat.Seed.
	HintSeed
	// HintPenalties are Chat.PresencePenalty and Chat.FrequencyPenalty.
	HintPenalties
	// HintVerbosity is Chat.Verbosity.
	HintVerbosity
	// HintOneCall is Chat.ParallelTools set to false.
	HintOneCall
	// HintSignedThinking is the state of calls that Claude made; see ToolCall.Extra.
	HintSignedThinking
	// HintThoughtSignature is the state of calls that Gemini made.
	HintThoughtSignature
	// HintTemperature stands for Chat.Temperature, HintTopP for Chat.TopP, HintStop for Chat.Stop, HintEffort for
	// Chat.Reasoning and HintStrict for Tool.Strict. Every dialect has these settings, but some models refuse them; see
	// Terms.
	HintTemperature
	HintTopP
	HintStop
	HintEffort
	HintStrict
	// HintReasoning is plain-text reasoning that servers of OpenAI's dialect sent with tool calls; see
	// Message.Reasoning.
	HintReasoning
	// HintTopK is a bound of the tokens that the model samples from. No dialect has it in a request of another.
	HintTopK
)

// HintSettings are the hints for settings that every dialect has.
const HintSettings = HintTemperature | HintTopP | HintStop | HintEffort | HintStrict

// HintField is a hint of a request, by the name of the field that holds it.
type HintField struct {
	// Kind is 0 for a hint that no other dialect has.
	Kind Hint
	Name string
	// By is the provider that wrote the field's value and always accepts it back; empty for none.
	By string
}

// Ignored returns the names of the fields that the provider by leaves out. A provider takes its own fields, whatever
// their kind.
func Ignored(fields []HintField, takes Hint, by string) (names []string) {
	for _, f := range fields {
		if f.Kind&takes == 0 && (f.By == "" || f.By != by) && !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
}

// Named returns the names of the fields of some kinds.
func Named(fields []HintField, kinds Hint) (names []string) {
	for _, f := range fields {
		if f.Kind&kinds != 0 && !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
}

// Relaying is a ChatProvider that knows what its vendor refuses of a body that is relayed, besides what Terms say.
type Relaying interface {
	ChatProvider
	// CanRelay reports whether the vendor accepts the native body of a chat. A chat whose body it would refuse must be
	// encoded anew.
	CanRelay(chat *Chat) bool
}

// Omitter is a ChatProvider that leaves fields out of the bodies that it relays, because the vendor would refuse a
// conversation that began with another vendor.
type Omitter interface {
	// Omitted returns the names of the fields that a relayed chat is sent without.
	Omitted(chat *Chat) []string
}
