package anthropic

import (
	"encoding/json"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

func cached(text string, life provider.CacheLife) provider.Part {
	return provider.Part{Text: text, Cache: life}
}

// Points of the prompt cache stay where they are, at most four of them and the long ones first.
func TestCachePoints(t *testing.T) {
	of := func(messages ...provider.Message) string {
		terms := Terms("m")
		fitted, err := terms.Fit(&provider.Chat{Model: "m", Messages: messages})
		if err != nil {
			t.Fatal(err)
		}
		r, err := encode(fitted.Chat, false, 9)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	user := func(parts ...provider.Part) provider.Message {
		return provider.Message{Role: provider.RoleUser, Content: parts}
	}
	const short, long = `"cache_control":{"type":"ephemeral"}`, `"cache_control":{"type":"ephemeral","ttl":"1h"}`
	for name, c := range map[string]struct {
		messages    []provider.Message
		want        string
		short, long int
	}{
		"system and user": {
			[]provider.Message{{Role: provider.RoleSystem, Content: []provider.Part{cached("a", provider.CacheLong)}}, user(cached("b", provider.CacheShort))},
			`"system":[{"type":"text","text":"a",` + long + `}]`, 1, 1,
		},
		"an empty text":      {[]provider.Message{user(provider.Part{Text: "a"}, cached("", provider.CacheShort))}, `"text":"a",` + short, 1, 0},
		"only an empty text": {[]provider.Message{user(provider.Part{Text: "a"}), user(cached("", provider.CacheShort))}, `{"type":"text","text":"a"}`, 0, 0},
		"a result": {
			[]provider.Message{{Role: provider.RoleTool, ToolCallID: "c", Content: []provider.Part{cached("a", provider.CacheShort)}}},
			`"content":[{"type":"text","text":"a"}],` + short, 1, 0,
		},
		"too many": {
			[]provider.Message{user(cached("a", provider.CacheShort), cached("b", provider.CacheShort), cached("c", provider.CacheShort), cached("d", provider.CacheShort), cached("e", provider.CacheShort))},
			`"text":"a"},{"type":"text","text":"b",` + short, 4, 0,
		},
		"a long one behind a short one": {[]provider.Message{user(cached("a", provider.CacheShort), cached("b", provider.CacheLong))}, short, 2, 0},
	} {
		got := of(c.messages...)
		if !strings.Contains(got, c.want) || strings.Count(got, short) != c.short || strings.Count(got, long) != c.long {
			t.Errorf("%s: %s, want %s, %d short and %d long points", name, got, c.want, c.short, c.long)
		}
	}
}
