package provider_test

import (
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Rewritten tells what a relayed body can't express by leaving settings out. A result that is empty stays as it came.
func TestRewritten(t *testing.T) {
	say := func(role provider.Role, text string) provider.Message {
		return provider.Message{Role: role, Content: []provider.Part{{Text: text}}}
	}
	called := provider.Message{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: "c", Name: "f"}}}
	result := provider.Message{Role: provider.RoleTool, ToolCallID: "c", Content: []provider.Part{{Text: "r"}}}
	empty := provider.Message{Role: provider.RoleTool, ToolCallID: "c", Content: []provider.Part{{}}}
	image := provider.Message{Role: provider.RoleTool, ToolCallID: "c", Content: []provider.Part{{ImageURL: "https://images.example/a.png"}}}
	system, user, assistant := provider.RoleSystem, provider.RoleUser, provider.RoleAssistant
	strict := provider.Terms{
		Sampling: provider.SamplingDefault, Stops: provider.NoStops, Texts: provider.TextsNotBlank, SystemApart: true,
		Functions: provider.NameRule{Longest: 3}, Refused: provider.HintPenalties, NoReasoning: true,
		Loosen:   func(chat *provider.Chat) ([]int, error) { return make([]int, min(1, len(chat.Tools))), nil },
		Obstacle: func(*provider.Chat) string { return "anything" },
	}
	for name, c := range map[string]struct {
		terms provider.Terms
		chat  provider.Chat
		want  bool
	}{
		"nothing":                     {strict, provider.Chat{Messages: []provider.Message{say(system, "s"), say(user, "u")}}, false},
		"settings":                    {strict, provider.Chat{Messages: []provider.Message{say(user, "u")}, Temperature: new(0.3), TopP: new(0.5), Stop: []string{"a"}}, false},
		"reasoning":                   {strict, provider.Chat{Messages: []provider.Message{say(user, "u")}, Reasoning: &provider.Reasoning{Effort: provider.EffortLow}}, true},
		"reasoning that is excluded":  {provider.Terms{Obstacle: strict.Obstacle}, provider.Chat{Reasoning: &provider.Reasoning{Required: true}}, false},
		"a function that is strict":   {strict, provider.Chat{Messages: []provider.Message{say(user, "u")}, Tools: []provider.Tool{{Name: "f"}}}, true},
		"a name":                      {provider.Terms{Functions: strict.Functions}, provider.Chat{Tools: []provider.Tool{{Name: "long"}}}, true},
		"a blank text":                {strict, provider.Chat{Messages: []provider.Message{say(user, " "), say(user, "u")}}, true},
		"a blank text, taken":         {provider.Terms{}, provider.Chat{Messages: []provider.Message{say(user, " "), say(user, "u")}}, false},
		"an empty result":             {strict, provider.Chat{Messages: []provider.Message{say(user, "u"), called, empty}}, false},
		"a turn of nothing":           {strict, provider.Chat{Messages: []provider.Message{say(user, "u"), {Role: assistant}, say(user, "u")}}, false},
		"instructions alone":          {strict, provider.Chat{Messages: []provider.Message{say(system, "s")}}, true},
		"a late instruction":          {strict, provider.Chat{Messages: []provider.Message{say(user, "u"), say(system, "s")}}, true},
		"white space to continue":     {strict, provider.Chat{Messages: []provider.Message{say(user, "u"), say(assistant, "a ")}}, true},
		"an answer to continue":       {strict, provider.Chat{Messages: []provider.Message{say(user, "u"), say(assistant, "a")}}, false},
		"results in order":            {strict, provider.Chat{Messages: []provider.Message{say(user, "u"), called, result, say(user, "v")}}, false},
		"an image in a result":        {provider.Terms{RefusedInResults: provider.AttachedImages}, provider.Chat{Messages: []provider.Message{say(user, "u"), called, image}}, true},
		"an image in a result, taken": {provider.Terms{RefusedInResults: provider.AttachedDocuments}, provider.Chat{Messages: []provider.Message{say(user, "u"), called, image}}, false},
		"something before the result": {provider.Terms{}, provider.Chat{Messages: []provider.Message{say(user, "u"), called, say(user, "v"), result}}, true},
	} {
		fitted, err := c.terms.FitRelayed(&c.chat)
		if err != nil || fitted.Rewritten != c.want {
			t.Errorf("%s: rewritten %v, %v", name, err == nil && fitted.Rewritten, err)
		}
	}
	fitted, err := strict.FitRelayed(&provider.Chat{Messages: []provider.Message{say(user, "u")}, Temperature: new(0.3)})
	if want := provider.HintTemperature | provider.HintPenalties; err != nil || fitted.Left != want {
		t.Errorf("left %b, %v, want %b", fitted.Left, err, want)
	}
	if fitted, err := (*provider.Terms)(nil).FitRelayed(&provider.Chat{Temperature: new(0.3)}); err != nil || fitted.Left != 0 || fitted.Rewritten {
		t.Errorf("no terms: %+v, %v", fitted, err)
	}
}

// A vendor with another API for relayed bodies has other terms for them, but the same sampling settings.
func TestTermsOfRelayedBodies(t *testing.T) {
	terms := provider.Terms{
		Functions: provider.NameRule{Longest: 3}, UserFirst: true, Sampling: provider.SamplingOne,
		Relayed: &provider.Terms{Functions: provider.NameRule{Longest: 5}},
	}
	chat := &provider.Chat{
		Tools: []provider.Tool{{Name: "long"}}, Temperature: new(1.0), TopP: new(0.5),
		Messages: []provider.Message{{Role: provider.RoleAssistant, Content: []provider.Part{{Text: "a"}}}},
	}
	fitted, err := terms.FitRelayed(chat)
	if err != nil || fitted.Rewritten || fitted.Temperature != nil || fitted.Unsent != provider.HintTemperature || fitted.Left != 0 {
		t.Errorf("%+v, %v", fitted, err)
	}
	if _, err := terms.Fit(chat); err == nil {
		t.Error("the terms of other bodies don't hold")
	}
}

// A model that reasons only on request takes sampling settings in a request that doesn't ask for it.
func TestSamplingOfModelsThatReasonOnRequest(t *testing.T) {
	for _, onRequest := range []bool{false, true} {
		terms := provider.Terms{Sampling: provider.SamplingDefault, SamplesWithoutReasoning: true, ReasonsOnRequest: onRequest}
		for effort, kept := range map[provider.Effort]bool{"": onRequest, provider.EffortNone: true, provider.EffortLow: false} {
			chat := &provider.Chat{Temperature: new(0.3)}
			if effort != "" {
				chat.Reasoning = &provider.Reasoning{Effort: effort}
			}
			if fitted, err := terms.Fit(chat); err != nil || (fitted.Temperature != nil) != kept {
				t.Errorf("on request %v, effort %q: kept %v, %v", onRequest, effort, fitted.Temperature != nil, err)
			}
		}
	}
}
