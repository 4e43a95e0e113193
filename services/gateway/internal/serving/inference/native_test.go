package inference

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
		if event.Shown() {
			got = append(got, string(event.Native))
		}
	}
	if diff := cmp.Diff([]string{"start", "delta", "stop"}, got); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
	if attempts, by := s.Route().Attempts, s.Report().Provider; attempts != 2 || by != "b" {
		t.Errorf("served by %q after %d attempts, want b after 2", by, attempts)
	}
}
