package api

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/send"
)

func TestCursor(t *testing.T) {
	text := inboxCursor.encode(42)
	if seq, err := inboxCursor.decode(text); err != nil || seq != 42 {
		t.Errorf("decode(%q) = %d, %v, want 42", text, seq, err)
	}
	if seq, err := inboxCursor.decode(""); err != nil || seq != 0 {
		t.Errorf("decode of nothing = %d, %v, want 0", seq, err)
	}
	refused := map[string]string{
		"another list's": attemptCursor.encode(42),
		"not base64":     "!",
		"zero":           inboxCursor.encode(0),
		"negative":       inboxCursor.encode(-1),
		"not a number":   "aW5ib3g6eA",
		"padded":         text + "=",
	}
	for name, text := range refused {
		t.Run(name, func(t *testing.T) {
			if seq, err := inboxCursor.decode(text); err == nil || seq != 0 {
				t.Errorf("decode(%q) = %d, %v, want an error", text, seq, err)
			}
		})
	}
}

// Whatever is accepted names a place, and that place reads back the same.
func FuzzCursor(f *testing.F) {
	f.Add(inboxCursor.encode(1))
	f.Add("aW5ib3g6KzE")
	f.Fuzz(func(t *testing.T, text string) {
		seq, err := inboxCursor.decode(text)
		if err != nil || text == "" {
			return
		}
		if again, err := inboxCursor.decode(inboxCursor.encode(seq)); seq <= 0 || err != nil || again != seq {
			t.Errorf("decode(%q) = %d, which reads back as %d, %v", text, seq, again, err)
		}
	})
}

// A place in a list of sends reads back the same; whatever else is accepted is a place, too.
func FuzzPlace(f *testing.F) {
	place := send.Position{At: time.Date(2026, 11, 26, 12, 0, 0, 1000, time.UTC), ID: uuid.Max}
	text := encodePlace(place)
	if got, err := decodePlace(text); err != nil || got != place {
		f.Fatalf("decodePlace(%q) = %v, %v, want %v", text, got, err, place)
	}
	f.Add(text)
	for _, position := range []string{"", ".", "1.", "-1." + uuid.Max.String(), "253402300800000000." + uuid.Max.String()} {
		refused := sendCursor.encodeText(position)
		if got, err := decodePlace(refused); err == nil {
			f.Errorf("decodePlace of %q = %v, want an error", position, got)
		}
		f.Add(refused)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := decodePlace(text)
		if err != nil || text == "" {
			return
		}
		if again, err := decodePlace(encodePlace(got)); got.IsZero() || got.At.Year() > 9999 || err != nil || again != got {
			t.Errorf("decodePlace(%q) = %v, which reads back as %v, %v", text, got, again, err)
		}
	})
}
