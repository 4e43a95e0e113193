package inbox_test

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"switchyard.dev/services/notify/internal/inbox"
)

// One organization can't take all streams of a replica: another organization can still open a stream and get its
// events.
func TestOrganizationHasItsShareOfStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &history{}
		f := inbox.NewFeed(h, 150, slog.New(slog.DiscardHandler))
		opened := 0
		var held []*inbox.Stream
		for {
			s, err := f.Open(t.Context(), inbox.Address{Organization: "hostile", User: "x"}, nil)
			if err != nil {
				if !errors.Is(err, inbox.ErrShare) {
					t.Errorf("after %d streams: %v, want ErrShare", opened, err)
				}
				break
			}
			held = append(held, s)
			opened++
		}
		if opened != 113 {
			t.Errorf("one organization opened %d of 150 streams, want three quarters", opened)
		}
		r := &reader{}
		end := follow(t, f, nil, r)
		h.add(1)
		f.Notify(ann)
		said(t, r, "ready 0 0", "created 1 1")
		if err := end(); err != nil {
			t.Error(err)
		}
		for _, s := range held {
			ended := make(chan error, 1)
			s.Start(t.Context(), &reader{limit: 1}, func(err error) { ended <- err })
			s.End()
			<-ended
		}
		if f.Streams() != 0 {
			t.Errorf("%d streams are left", f.Streams())
		}
	})
}
