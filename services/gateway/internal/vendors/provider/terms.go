package provider

import (
	"slices"
	"strings"
)

// Terms are what a vendor's model refuses of a request that was written in another dialect. Each dialect has one table of
// them. The zero value refuses nothing.
type Terms struct {
	Sampling Sampling
	// SamplesWithoutReasoning reports whether the model takes every setting of sampling where it is told not to reason.
	SamplesWithoutReasoning bool
	// Functions says which names of functions the vendor takes. Others are replaced, and the calls get them back.
	Functions NameRule
	// Stops is how many stop sequences the vendor takes; 0 is any number, and NoStops is none.
	Stops int
	// NoBlanks reports whether the vendor refuses stop sequences without a character other than white space.
	NoBlanks bool
	// NoPrefill reports whether the model refuses a conversation that ends with the beginning of its own answer.
	NoPrefill bool
	// Obstacle returns what in a request makes the vendor refuse to reason with it, as the end of a sentence; empty for
	// nothing. Nil is for vendors that reason with every request.
	Obstacle func(chat *Chat) string
}

// NoStops is the number of stop sequences of models that take none.
const NoStops = -1

// Sampling is which settings of sampling a model takes: the temperature and top_p.
type Sampling int

// The settings that models take.
const (
	// SamplingAny takes both.
	SamplingAny Sampling = iota
	// SamplingOne takes either, but not both.
	SamplingOne
	// SamplingDefault takes neither, but for the value that is the default, which need not be sent.
	SamplingDefault
)

// defaultSampling is the default of both settings at the vendors whose models don't take every value.
const defaultSampling = 1

// Fitted is a chat as a vendor's model takes it.
type Fitted struct {
	*Chat

	// Left are the kinds of settings that the model doesn't take and the chat no longer has.
	Left  Hint
	names names
}

// Fit returns a chat as a model of these terms takes it. What the model refuses is expressed in another way, left out or,
// where the answer depends on it, the reason for an Unsupported error. The chat itself stays as it is. Nil terms refuse
// nothing.
func (t *Terms) Fit(chat *Chat) (*Fitted, error) {
	if t == nil {
		t = new(Terms)
	}
	f := &Fitted{Chat: new(*chat)}
	f.Messages = resultsFirst(chat.Messages)
	if last := len(f.Messages) - 1; t.NoPrefill && last >= 0 && f.Messages[last].Role == RoleAssistant {
		return nil, Unsupported("messages", "this model doesn't continue an answer: the last message must not be the assistant's")
	}
	if !t.SamplesWithoutReasoning || chat.Reasoning.Level() != EffortNone {
		f.sample(t.Sampling)
	}
	if err := f.stop(t); err != nil {
		return nil, err
	}
	if err := f.rename(t.Functions); err != nil {
		return nil, err
	}
	return f, f.reason(t.Obstacle)
}

// sample removes the settings of sampling that the model refuses.
func (f *Fitted) sample(takes Sampling) {
	if takes == SamplingAny {
		return
	}
	if isDefault(f.Temperature) {
		f.Temperature = nil
	}
	if isDefault(f.TopP) {
		f.TopP = nil
	}
	if f.TopP != nil && (takes == SamplingDefault || f.Temperature != nil) {
		f.TopP, f.Left = nil, f.Left|HintTopP
	}
	if f.Temperature != nil && takes == SamplingDefault {
		f.Temperature, f.Left = nil, f.Left|HintTemperature
	}
}

func isDefault(setting *float64) bool { return setting != nil && *setting == defaultSampling }

// stop removes the stop sequences that the vendor refuses. Too many are refused: an answer would run on.
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

// IsBlank reports whether a text has nothing but white space.
func IsBlank(text string) bool { return strings.TrimSpace(text) == "" }

// rename gives the functions names that the vendor takes.
func (f *Fitted) rename(rule NameRule) (err error) {
	if f.names, err = newNames(f.Chat, rule); err != nil || f.names.sent == nil {
		return err
	}
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

// Restore gives the calls of an answer the names that the caller knows their functions by.
func (f *Fitted) Restore(calls []ToolCall) {
	for i := range calls {
		if name, ok := f.names.called[calls[i].Name]; ok {
			calls[i].Name = name
		}
	}
}

// reason leaves reasoning out where something else in the request excludes it.
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
