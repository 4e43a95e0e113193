package provider

import (
	"slices"
	"strings"
)

// Terms describes what a vendor's model refuses. Each dialect returns them for its models. The zero value refuses
// nothing.
type Terms struct {
	Sampling Sampling
	// SamplesWithoutReasoning reports whether the model accepts every sampling setting if the request turns reasoning
	// off, and ReasonsOnRequest whether reasoning is off unless the request asks for it.
	SamplesWithoutReasoning, ReasonsOnRequest bool
	// Refused are the hints whose settings the model refuses in a body that is relayed. In other bodies, the hints of the
	// dialect decide.
	Refused Hint
	// Functions says which function names the vendor accepts. Other names are replaced, and restored in the answer's
	// calls.
	Functions NameRule
	// Stops is how many stop sequences the vendor accepts; 0 means any number, NoStops none.
	Stops int
	// NoBlanks reports whether the vendor refuses stop sequences of only white space.
	NoBlanks bool
	// Texts says which texts the vendor accepts in messages. Others are left out.
	Texts Texts
	// RefusedInResults are the images and documents that the vendor refuses in results of calls.
	RefusedInResults Attachments
	// SystemApart reports whether the vendor has a system prompt apart from the conversation, which must not be empty.
	SystemApart bool
	// UserFirst reports whether the vendor refuses a conversation that the assistant begins.
	UserFirst bool
	// NoPrefill reports whether the model refuses a conversation that ends with the beginning of its own answer.
	NoPrefill bool
	// Loosen returns the indexes of the strict functions whose schemas the vendor can't enforce in a request. It returns
	// an Unsupported error if the vendor can't enforce the schema of the answer. Nil means that the vendor enforces all.
	Loosen func(chat *Chat) (functions []int, err error)
	// Obstacle returns which part of a request the vendor refuses to combine with reasoning, as the end of a sentence;
	// empty if there is none. Nil means that the vendor reasons with every request.
	Obstacle func(chat *Chat) string
	// NoReasoning reports whether the model is known to refuse any setting of reasoning.
	NoReasoning bool
	// Relayed are the terms of bodies that are relayed, where the vendor has another API for them; nil if they are the
	// same. The sampling settings are the same in any case.
	Relayed *Terms
}

// NoStops is the value of Terms.Stops for models that accept no stop sequences.
const NoStops = -1

// Sampling says which sampling settings, temperature and top_p, a model accepts.
type Sampling int

// The values of Sampling.
const (
	// SamplingAny accepts both.
	SamplingAny Sampling = iota
	// SamplingOne accepts either, but not both.
	SamplingOne
	// SamplingDefault accepts only the default of each, which need not be sent.
	SamplingDefault
)

// defaultSampling is the default of both settings at the vendors whose models don't accept every value.
const defaultSampling = 1

// Fitted is a chat adapted to what a vendor's model accepts.
type Fitted struct {
	*Chat

	// Left holds the hints for settings that were left out because the model refuses them, and Unsent those for defaults
	// that were left out because the model refuses them beside another setting.
	Left, Unsent Hint
	// Rewritten reports whether more than settings had to change: messages, functions or the names of functions.
	Rewritten bool
	names     names
}

// Fit adapts a chat to what the model accepts. It expresses differently or leaves out what the model refuses, or
// returns an Unsupported error if the answer depends on it. The chat itself is not changed. Nil Terms refuse nothing.
func (t *Terms) Fit(chat *Chat) (*Fitted, error) {
	if t == nil {
		t = new(Terms)
	}
	f := &Fitted{Chat: new(*chat)}
	if err := f.converse(t); err != nil {
		return nil, err
	}
	if !t.SamplesWithoutReasoning || t.reasons(chat.Reasoning.Level()) {
		f.sample(t.Sampling)
	}
	if err := f.stop(t); err != nil {
		return nil, err
	}
	if err := f.rename(t.Functions); err != nil {
		return nil, err
	}
	if err := f.loosen(t.Loosen); err != nil {
		return nil, err
	}
	return f, f.reason(t.Obstacle)
}

// FitRelayed is Fit for a body that is relayed. It leaves to the vendor what excludes reasoning.
func (t *Terms) FitRelayed(chat *Chat) (*Fitted, error) {
	var relayed Terms
	switch {
	case t == nil:
	case t.Relayed != nil:
		relayed = *t.Relayed
		relayed.Sampling, relayed.SamplesWithoutReasoning, relayed.ReasonsOnRequest = t.Sampling, t.SamplesWithoutReasoning, t.ReasonsOnRequest
	default:
		relayed = *t
	}
	relayed.Obstacle = nil
	fitted, err := relayed.Fit(chat)
	if err == nil {
		fitted.Left |= relayed.Refused
		fitted.Rewritten = fitted.Rewritten || relayed.NoReasoning && chat.Reasoning != nil
	}
	return fitted, err
}

// reasons reports whether a request with an effort reasons; empty is one that says nothing.
func (t *Terms) reasons(effort Effort) bool {
	return effort != EffortNone && (effort != "" || !t.ReasonsOnRequest)
}

// sample removes the sampling settings that the model refuses.
func (f *Fitted) sample(takes Sampling) {
	if takes == SamplingAny {
		return
	}
	both := takes == SamplingOne && f.Temperature != nil && f.TopP != nil
	if isDefault(f.Temperature) {
		f.Temperature = nil
	}
	if isDefault(f.TopP) {
		f.TopP = nil
	}
	if both && f.Temperature == nil {
		f.Unsent |= HintTemperature
	}
	if both && f.TopP == nil {
		f.Unsent |= HintTopP
	}
	if f.TopP != nil && (takes == SamplingDefault || f.Temperature != nil) {
		f.TopP, f.Left = nil, f.Left|HintTopP
	}
	if f.Temperature != nil && takes == SamplingDefault {
		f.Temperature, f.Left = nil, f.Left|HintTemperature
	}
}

func isDefault(setting *float64) bool { return setting != nil && *setting == defaultSampling }

// stop removes the stop sequences that the vendor refuses. If there are too many, it returns an error, because without
// one of them an answer would not stop.
func (f *Fitted) stop(t *Terms) error {
	if t.Stops == NoStops && len(f.Stop) > 0 {
		f.Stop, f.Left = nil, f.Left|HintStop
	}
	if blank := func(text string) bool { return text == "" || t.NoBlanks && IsBlank(text) }; slices.ContainsFunc(f.Stop, blank) {
		f.Stop, f.Left = slices.DeleteFunc(slices.Clone(f.Stop), blank), f.Left|HintStop
	}
	if t.Stops > 0 && len(f.Stop) > t.Stops {
		return Unsupported("stop", "this provider takes fewer stop sequences")
	}
	return nil
}

// IsBlank reports whether a text is empty or only white space.
func IsBlank(text string) bool { return strings.TrimSpace(text) == "" }

// rename replaces the function names that the vendor refuses.
func (f *Fitted) rename(rule NameRule) (err error) {
	if f.names, err = newNames(f.Chat, rule); err != nil || f.names.sent == nil {
		return err
	}
	f.Rewritten = true
	f.Tools, f.Messages = slices.Clone(f.Tools), slices.Clone(f.Messages)
	if f.ToolChoice != nil {
		f.ToolChoice = new(*f.ToolChoice)
	}
	for i := range f.Messages {
		f.Messages[i].ToolCalls = slices.Clone(f.Messages[i].ToolCalls)
	}
	eachName(f.Chat, func(name string) string {
		if sent, ok := f.names.sent[name]; ok {
			return sent
		}
		return name
	})
	return nil
}

// Restore gives an answer's calls the caller's function names.
func (f *Fitted) Restore(calls []ToolCall) {
	for i := range calls {
		if name, ok := f.names.called[calls[i].Name]; ok {
			calls[i].Name = name
		}
	}
}

// loosen makes the functions whose schemas the vendor can't enforce not strict, so that their schemas are hints.
func (f *Fitted) loosen(excess func(chat *Chat) ([]int, error)) error {
	if excess == nil {
		return nil
	}
	functions, err := excess(f.Chat)
	if err != nil || len(functions) == 0 {
		return err
	}
	f.Tools, f.Left, f.Rewritten = slices.Clone(f.Tools), f.Left|HintStrict, true
	for _, i := range functions {
		f.Tools[i].Strict = false
	}
	return nil
}

// reason removes reasoning if something else in the request excludes it. If reasoning is required, it returns an error.
func (f *Fitted) reason(obstacle func(chat *Chat) string) error {
	if obstacle == nil || f.Reasoning == nil || f.Reasoning.Level() == EffortNone {
		return nil
	}
	what := obstacle(f.Chat)
	switch {
	case what == "":
		return nil
	case f.Reasoning.Required:
		return Unsupported("reasoning", "this provider can't think with "+what)
	}
	f.Reasoning, f.Left = nil, f.Left|HintEffort
	return nil
}
