package delivery

import (
	"testing"
	"time"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestHostPatternGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) { _ = HostPattern(text) })...)
}

// What a target answers, and what a customer asks for.
func TestContentGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) {
		_ = Text(text, 4096)
		_ = Text(text, len(text))
		_, _, _ = splitHeaders(map[string]string{text: text, "X-A": text})
	})...)
	growth.Linear(t, growth.Each(append(growth.JSON, growth.Around(`{"a":`, growth.JSON, "}")...), func(text []byte) { _ = checkPayload(text) })...)
	growth.Linear(t, growth.Row{Name: "headers", Top: 1 << 13, Make: func(n int) func() {
		custom := make(map[string]string, n)
		for i := range n {
			custom["X-"+time.Duration(i).String()] = "a"
		}
		return func() { _, _, _ = splitHeaders(custom) }
	}})
}
