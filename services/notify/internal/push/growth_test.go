package push

import (
	"testing"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestContentGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) {
		for _, m := range []channel.Message{
			{Text: text},
			{Subject: text, Text: "a"},
			{Text: "a", Target: channel.Target{URL: "/" + text}},
			{Subject: text, Text: text},
			{Text: text, Actions: []inbox.Action{{ID: "a", Label: text, URL: text}}},
		} {
			if f, err := NewContent(m, 4000); err == nil {
				_ = f.Content.Of(uuid.Nil, "")
			}
		}
		_, _ = readWork([]byte(text))
	})...)
	growth.Linear(t, growth.Each(growth.JSON, func(text []byte) { _, _ = readWork(text) })...)
}
