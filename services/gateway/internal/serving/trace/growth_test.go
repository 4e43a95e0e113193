package trace

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

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

func TestUnpackGrowsLinearly(t *testing.T) {
	segments := growth.Input{Name: "segments", Make: func(n int) []byte {
		r := Record{RequestID: strings.Repeat("r", n), Organization: "acme"}
		made, err := Segments([]Record{r})
		if err != nil {
			t.Fatal(err)
		}
		return made[0].Body
	}}
	growth.Linear(t, growth.Each(append([]growth.Input{segments}, growth.Text...), func(body []byte) {
		_, _ = Unpack(uuid.Nil, body, true, time.Time{}) // Most are no segments.
	})...)
}
