package inference

import (
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// A vendor's own frames are not content: they are held until content arrives, and a failure after them still moves on.
// The caller then gets only the frames of the next vendor.
func TestNativeFramesBeforeContentAreHeld(t *testing.T) {
	frame := func(name, text string) step {
		return step{event: provider.Event{Native: []byte(name), NativeType: name, Text: text}}
	}
	overloaded := step{err: &provider.Error{Class: apierr.ClassServerError, Status: 529, Text: "overloaded"}}
	b := setup(t, nil,
		&script{name: "a", steps: []step{frame("start", ""), frame("ping", ""), overloaded}},
		&script{name: "b", steps: []step{frame("start", ""), frame("delta", "yes"), frame("stop", ""), end(used)}},
	)
	s, err := b.StreamChat(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var got []string
	for event, err := s.Next(); err == nil; event, err = s.Next() {
		got = append(got, string(event.Native))
	}
	if len(got) != 3 || got[0] != "start" || got[1] != "delta" || got[2] != "stop" || s.Route().Attempts != 2 || s.Report().Provider != "b" {
		t.Errorf("frames %q by %s after %d attempts", got, s.Report().Provider, s.Route().Attempts)
	}
}
