package gemini_test

import (
	"encoding/json"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Bodies of generateContent are relayed unless the model takes no form of the answer with functions, or no such document.
func TestCanRelay(t *testing.T) {
	functions := []provider.Tool{{Name: "f"}}
	file := func(url string) []provider.Message {
		return []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{File: &provider.File{URL: url}}}}}
	}
	p := over(t, 200, "application/json", "{}")
	for name, c := range map[string]struct {
		chat provider.Chat
		want bool
	}{
		"a form":                          {provider.Chat{Model: "gemini-2.5-flash", ResponseFormat: json.RawMessage(`{"type":"json_object"}`)}, true},
		"a form with functions":           {provider.Chat{Model: "gemini-2.5-flash", Tools: functions, ResponseFormat: json.RawMessage(`{"type":"json_object"}`)}, false},
		"functions":                       {provider.Chat{Model: "gemini-2.5-flash", Tools: functions}, true},
		"a form with functions, Gemini 3": {provider.Chat{Model: "gemini-3-flash", Tools: functions, ResponseFormat: json.RawMessage(`{"type":"json_object"}`)}, true},
		"a PDF":                           {provider.Chat{Messages: file("data:application/pdf;base64,AA==")}, true},
		"JSON":                            {provider.Chat{Messages: file("data:application/json;base64,e30=")}, false},
		"a URL":                           {provider.Chat{Messages: file("https://x/a.json")}, true},
	} {
		if got := p.CanRelay(&c.chat); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
