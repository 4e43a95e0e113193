package provider_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestPlacesOfCitations(t *testing.T) {
	const text = "Grüße aus Köln 🌍!"
	in := func(start, end int) provider.Citation { return provider.Citation{Start: start, End: end} }
	bytes := []provider.Citation{in(12, 17), in(0, 7), in(-1, 999), in(18, 22), in(0, 0)}
	characters := []provider.Citation{in(10, 14), in(0, 5), in(0, 17), in(15, 16), in(0, 0)}
	got := append([]provider.Citation(nil), bytes...)
	provider.ToCharacters(text, got)
	if diff := cmp.Diff(characters, got); diff != "" {
		t.Errorf("to characters (-want +got):\n%s", diff)
	}
	provider.ToBytes(text, got)
	bytes[2] = in(0, len(text))
	if diff := cmp.Diff(bytes, got); diff != "" {
		t.Errorf("to bytes (-want +got):\n%s", diff)
	}
}

func TestPlacesOfCitationsGrowLinearly(t *testing.T) {
	growth.Linear(t, growth.Row{Name: "text and citations", Top: 1 << 15, Make: func(n int) func() {
		text, citations := strings.Repeat("ü", n), make([]provider.Citation, n)
		return func() {
			for i := range citations {
				citations[i] = provider.Citation{Start: 2 * i, End: 2*n - i}
			}
			provider.ToCharacters(text, citations)
		}
	}})
}
