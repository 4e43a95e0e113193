package providertest

import (
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

func (d Dialect) canned(t *testing.T, header http.Header, text string) provider.ChatProvider {
	t.Helper()
	p, err := d.New(baseURL, Canned(http.StatusOK, header, text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// many checks that the cost of an answer grows linearly with its parts, and that an answer with too many calls is
// refused, however many there are.
func (d Dialect) many(t *testing.T) {
	t.Run("parts", func(t *testing.T) {
		Proportional(t, 2000, func(n int) func() {
			p := d.canned(t, asJSON, d.Parts(n, 0))
			return func() {
				if _, err := p.Chat(t.Context(), Credential(), question()); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
	for n, served := range map[int]bool{provider.MaxToolCalls: true, provider.MaxToolCalls + 1: false, 100 * provider.MaxToolCalls: false} {
		answer, err := d.canned(t, asJSON, d.Parts(1, n)).Chat(t.Context(), Credential(), question())
		if served {
			if err != nil || len(answer.ToolCalls) != n {
				t.Errorf("%d calls: %v", n, err)
			}
			continue
		}
		if e := failure(t, err); e.Class != apierr.ClassServerError || !strings.Contains(e.Text, "tool calls") {
			t.Errorf("%d calls: %v, want a server error that says so", n, err)
		}
	}
}
