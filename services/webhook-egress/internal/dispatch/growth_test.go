package dispatch

import (
	"strconv"
	"strings"
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

// What a receiver says, and how many secrets it may repeat.
func TestRedactionGrowsLinearly(t *testing.T) {
	secrets := []string{"Bearer tok-12345678", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	growth.Linear(t, growth.EachText(growth.Text, func(text string) {
		_, _ = newRedactor(secrets).responseText([]byte(text), true)
	})...)
	growth.Linear(t, growth.Row{Name: "secrets", Top: 1 << 12, Make: func(n int) func() {
		all := make([]string, n)
		for i := range all {
			all[i] = "secret-" + strconv.Itoa(i) + strings.Repeat("x", 8)
		}
		body := []byte(strings.Join(all, " "))
		return func() { _, _ = newRedactor(all).responseText(body, true) }
	}})
}
