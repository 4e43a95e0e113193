package providertest

import (
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

// nestings are JSON that must not be read to its end: the second would use up a goroutine's stack, which ends the
// process.
func nestings(answer string) map[string]string {
	deep := strings.Repeat("[", jsoncheck.MaxDepth) + strings.Repeat("]", jsoncheck.MaxDepth)
	return map[string]string{
		"beyond the bound": strings.Replace(answer, "{", `{"x":`+deep+`,`, 1),
		"without an end":   strings.Repeat(`[`, 7<<20),
		"of objects":       strings.Repeat(`{"a":`, 2<<20),
	}
}

// nested checks that an answer, or an event, that is nested too deeply is refused.
func (d Dialect) nested(t *testing.T) {
	answer := d.golden(t, "answers", "text.json")
	head, event, _ := strings.Cut(d.golden(t, "answers", "text.sse"), "data: ")
	first, rest, _ := strings.Cut(event, "\n")
	refused := func(t *testing.T, err error) {
		t.Helper()
		if e := failure(t, err); e.Class != apierr.ClassServerError {
			t.Errorf("error = %v, want a server error", e)
		}
	}
	for name, body := range nestings(answer) {
		t.Run("answer "+name, func(t *testing.T) {
			_, err := d.serve(t, reply(http.StatusOK, asJSON, body)).Chat(t.Context(), Credential(), question())
			refused(t, err)
		})
	}
	for name, body := range nestings(first) {
		for way, native := range map[string]*provider.Native{"parsed": nil, "relayed": d.own()} {
			t.Run("event "+name+" "+way, func(t *testing.T) {
				asked := question()
				asked.Native = native
				stream, err := d.serve(t, d.stream(head+"data: "+body+"\n"+rest)).StreamChat(t.Context(), Credential(), asked)
				if err != nil {
					t.Fatal(err)
				}
				_, err = Collect(stream)
				refused(t, err)
			})
		}
	}
}

// own returns a native body in the dialect, or nil if the dialect relays none.
func (d Dialect) own() *provider.Native {
	if d.Native.Dialect == "" {
		return nil
	}
	return &provider.Native{Dialect: d.Native.Dialect, Body: []byte(d.Native.Body)}
}

// nested checks that an answer that is nested too deeply is refused.
func (w Whole[Q, A]) nested(t *testing.T) {
	for name, body := range nestings(golden(t, w.Dir, "plain.json")) {
		t.Run(name, func(t *testing.T) {
			if e := w.fails(t, w.serve(t, reply(http.StatusOK, asJSON, body))); e.Class != apierr.ClassServerError {
				t.Errorf("error = %v, want a server error", e)
			}
		})
	}
}
