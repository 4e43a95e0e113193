package api

import "testing"

// A cursor leads where its list gave it out for, and into no other list.
func FuzzCursor(f *testing.F) {
	f.Add("")
	f.Add(deliveryCursor.encode([16]byte{1}))
	f.Add(endpointCursor.encode([16]byte{15: 1}))
	f.Add("!")
	f.Fuzz(func(t *testing.T, text string) {
		kinds := 0
		for _, c := range []cursor{deliveryCursor, endpointCursor, replayCursor} {
			id, err := c.decode(text)
			if err != nil || text == "" {
				continue
			}
			kinds++
			if again := c.encode(id); again != text && id != [16]byte{} {
				t.Fatalf("%q comes back as %q", text, again)
			}
		}
		if kinds > 1 {
			t.Fatalf("%q leads into %d lists", text, kinds)
		}
	})
}
