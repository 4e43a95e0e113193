package usertoken

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// During a rotation the key before signs until every replica knows the new one, and its tokens are valid until they
// expire.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := request()
		r.Life = MaxLife
		before := w.mint(t, r)
		made, err := w.Rotate(t.Context(), apikey.Actor{Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Rotate(t.Context(), apikey.Actor{Name: "test"}); apierr.From(err).Kind != apierr.KindConflict {
			t.Errorf("a rotation in a rotation: %v", err)
		}
		last := w.mint(t, r) // this replica does not know the new key yet
		if _, err := w.verifier.Verify(last); err != nil {
			t.Errorf("minted during a rotation: %v", err)
		}
		w.verifier.Use(w.store.policy)
		time.Sleep(publishLead)
		after := w.mint(t, r)
		if token, err := w.verifier.Verify(after); err != nil || token.key != made.ID {
			t.Errorf("minted after a rotation: %+v, %v", token, err)
		}
		if n := len(w.verifier.Keys().Keys); n != 2 {
			t.Errorf("%d keys are published, want 2", n)
		}
		time.Sleep(MaxLife - publishLead - time.Second)
		for name, text := range map[string]string{"before": before, "last": last, "after": after} {
			if _, err := w.verifier.Verify(text); err != nil {
				t.Errorf("%s, a second before its end: %v", name, err)
			}
		}
		time.Sleep(publishLead + skew + 2*time.Second)
		if keys := w.verifier.Keys().Keys; len(keys) != 1 || keys[0].KeyID != made.ID {
			t.Errorf("%d keys are published after the end of the one before, want the new one", len(keys))
		}
		if dropped := outlived(w.store.keys, time.Now()); len(dropped) != 1 {
			t.Errorf("%v are dropped", dropped)
		}
	})
}

// After a change of the pepper the key can't be opened; another one is made, and tokens of the one before stay valid.
func TestAnotherPepper(t *testing.T) {
	w := newWorld(t)
	before := w.mint(t, request())
	box, err := NewBox(secret.New(strings.Repeat("q", 32)))
	if err != nil {
		t.Fatal(err)
	}
	other := world{NewManager(box, w.store, testkit.Logger(t)), w.store, w.verifier}
	for range 2 { // the second time, it has one
		if err := other.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.store.keys) != 2 {
		t.Fatalf("%d keys, want 2", len(w.store.keys))
	}
	w.verifier.Use(w.store.policy)
	for _, text := range []string{before, other.mint(t, request())} {
		if _, err := w.verifier.Verify(text); err != nil {
			t.Error(err)
		}
	}
}
