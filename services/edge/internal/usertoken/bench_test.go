package usertoken

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

// BenchmarkVerify checks a token that the replica knows, one that it sees for the first time, and a forged one.
func BenchmarkVerify(b *testing.B) {
	w := newWorld(b)
	known, forged := w.mint(b, request()), newWorld(b).mint(b, request())
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := w.verifier.Verify(known); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			clear(w.verifier.cache.known)
			if _, err := w.verifier.Verify(known); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("forged", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := w.verifier.Verify(forged); err == nil {
				b.Fatal("a forged token is valid")
			}
		}
	})
}

func FuzzVerify(f *testing.F) {
	w := newWorld(f)
	valid := w.mint(f, request())
	for _, seed := range []string{"", prefix, valid, valid[:len(valid)-1], prefix + "e30.e30.", prefix + "..", prefix + "eyJhbGciOiJub25lIn0.e30."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if token, err := w.verifier.Verify(text); (token == nil) == (err == nil) || err == nil && text != valid {
			t.Errorf("%q: %+v, %v", text, token, err)
		}
	})
}

func TestVerifyGrowsLinearly(t *testing.T) {
	w := newWorld(t)
	inputs := append(growth.Around(prefix, growth.Text, ""), growth.Around(prefix+"eyJhbGciOiJFZERTQSJ9.", growth.Text, ".AA")...)
	growth.Linear(t, growth.EachText(append(inputs, growth.Text...), func(text string) { _, _ = w.verifier.Verify(text) })...)
}

func TestOriginGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around("https://", growth.Text, ""), growth.Text...)
	growth.Linear(t, growth.EachText(inputs, func(text string) { _ = validOrigin(text) })...)
}
