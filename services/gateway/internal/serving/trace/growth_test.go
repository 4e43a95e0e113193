package trace

import (
	"strings"
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestDecodeGrowsLinearly(t *testing.T) {
	packets := growth.Input{Name: "packets", Make: func(n int) []byte {
		text, err := (&Packet{Form: "chat", Request: []byte(`"` + strings.Repeat("w", n) + `"`), Response: []byte("{}")}).encode(new(scratch), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}}
	growth.Linear(t, growth.Each(append([]growth.Input{packets}, growth.Text...), func(text []byte) {
		if p, err := decode(text); err == nil {
			_, _ = p.encode(new(scratch), 0, 0)
		}
	})...)
}
