package app

import (
	"context"
	"errors"
	"slices"
	"testing"

	"switchyard.dev/services/edge/internal/apikey"
)

// announced notes what it is told.
type announced struct {
	order *[]string
	err   error
}

func (a announced) Announce(context.Context, apikey.Digest) error {
	*a.order = append(*a.order, "others")
	return a.err
}

// A changed key is forgotten here before other replicas are notified, and also when they can't be.
func TestChangesAreInForceHereFirst(t *testing.T) {
	away := errors.New("away")
	var order []string
	digest := apikey.Digest{7}
	forget := func(got apikey.Digest) {
		if got != digest {
			t.Errorf("forgot %x", got)
		}
		order = append(order, "here")
	}
	if err := (hereFirst{forget, announced{&order, away}}).Announce(t.Context(), digest); !errors.Is(err, away) || !slices.Equal(order, []string{"here", "others"}) {
		t.Errorf("%v, %v", order, err)
	}
	order = nil
	if err := (hereFirst{forget: forget}).Announce(t.Context(), digest); err != nil || !slices.Equal(order, []string{"here"}) {
		t.Errorf("without a bus: %v, %v", order, err)
	}
}
