package inbox_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/notify/internal/inbox"
)

// slowReader takes so long for each event.
type slowReader struct {
	reader
	each time.Duration
}

func (r *slowReader) Event(e inbox.Event) error {
	time.Sleep(r.each)
	return r.reader.Event(e)
}

// What happens while a reader is being written to comes after it, and others don't
// wait for it; a drain lets it have the event that it is at, and no other.
func TestSlowReaderHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, quick, slow := &history{}, &reader{}, &slowReader{each: 5 * time.Second}
		f := newFeed(h)
		ended := make(chan error, 2)
		go func() { ended <- followNow(t.Context(), f, nil, quick) }()
		stream, err := f.Open(t.Context(), ann, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- stream.Follow(t.Context(), slow) }()
		for range 4 { // the slow one is at `ready` all the while
			synctest.Wait()
			h.add(1)
			f.Notify(ann)
			time.Sleep(time.Second)
		}
		said(t, quick, "ready 0 0", "created 1 1", "created 2 2", "created 3 3", "created 4 4")
		said(t, &slow.reader)
		time.Sleep(7 * time.Second)
		said(t, &slow.reader, "ready 0 0", "created 1 1")
		began := time.Now()
		err = f.Drain(t.Context()) // It looks every 10 ms; that of the end's own moment may come just before it.
		if took := time.Since(began); err != nil || took < 4*time.Second || took > 4*time.Second+10*time.Millisecond {
			t.Errorf("drained after %v: %v", took, err)
		}
		said(t, &slow.reader, "ready 0 0", "created 1 1", "created 2 2")
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// A notice that comes when the last page is read, and not yet written, isn't lost.
func TestRingDuringATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r := &history{}, &slowReader{each: 5 * time.Second}
		h.add(1)
		f := newFeed(h)
		stream, err := f.Open(t.Context(), ann, new(int64(0)))
		if err != nil {
			t.Fatal(err)
		}
		stream.Start(t.Context(), r, func(error) {})
		time.Sleep(7 * time.Second) // `ready` is written, the first change under way
		h.add(1)
		f.Notify(ann)
		time.Sleep(10 * time.Second)
		said(t, &r.reader, "ready 0 0", "created 1 1", "created 2 2")
		stream.End()
	})
}

// A drain doesn't wait longer than it may.
func TestDrainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, slow := newFeed(&history{}), &slowReader{each: time.Minute}
		stream, err := f.Open(t.Context(), ann, nil)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		stream.Start(t.Context(), slow, func(err error) { ended <- err })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.Drain(ctx); err == nil || !strings.Contains(err.Error(), "1 inbox streams cut") {
			t.Errorf("drain: %v", err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The drain waits for the farewell too, which says the last word on the wire.
func TestDrainWaitsForTheFarewell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeed(&history{})
		stream, err := f.Open(t.Context(), ann, nil)
		if err != nil {
			t.Fatal(err)
		}
		var reported atomic.Bool
		stream.Start(t.Context(), &reader{}, func(error) {
			time.Sleep(time.Second)
			reported.Store(true)
		})
		if err := f.Drain(t.Context()); err != nil || !reported.Load() {
			t.Errorf("drained: %v, reported %t", err, reported.Load())
		}
		stream.End() // of one that has ended changes nothing
	})
}

type panicking struct{ reader }

func (*panicking) Event(inbox.Event) error { panic("no such field") }

// A panic ends its own stream, with an error for the log, and no other.
func TestPanicEndsOneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r := &history{}, &reader{}
		f := newFeed(h)
		end := follow(t, f, nil, r)
		stream, err := f.Open(t.Context(), ann, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Follow(t.Context(), &panicking{}); err == nil || f.Streams() != 1 {
			t.Errorf("%v, %d streams left", err, f.Streams())
		}
		h.add(1)
		f.Notify(ann)
		said(t, r, "ready 0 0", "created 1 1")
		_ = end()
	})
}

// crowded counts who reads at a time.
type crowded struct {
	history

	now, most atomic.Int32
}

func (c *crowded) Events(ctx context.Context, at inbox.Address, after int64, limit int) ([]inbox.Event, error) {
	c.most.Store(max(c.most.Load(), c.now.Add(1)))
	defer c.now.Add(-1)
	time.Sleep(time.Millisecond)
	return c.history.Events(ctx, at, after, limit)
}

// A change that many follow is read by few at a time, and by all.
func TestFewReadAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 200
		c := &crowded{}
		f := inbox.NewFeed(c, 2*streams, nil)
		var readers []*reader
		for range streams {
			stream, err := f.Open(t.Context(), ann, nil)
			if err != nil {
				t.Fatal(err)
			}
			readers = append(readers, &reader{})
			stream.Start(t.Context(), readers[len(readers)-1], func(error) {})
		}
		c.add(1)
		f.Notify(ann)
		time.Sleep(time.Second)
		for _, r := range readers {
			said(t, r, "ready 0 0", "created 1 1")
		}
		if n := c.most.Load(); n > 8 {
			t.Errorf("%d read at a time", n)
		}
		if err := f.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A store that fails while a stream is open ends it, with its error.
func TestStoreFailsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &history{}
		f := newFeed(h)
		end := follow(t, f, nil, &reader{})
		h.mu.Lock()
		h.err = errors.New("away")
		h.mu.Unlock()
		f.Notify(ann)
		synctest.Wait()
		if f.Streams() != 0 {
			t.Error("the stream is still open")
		}
		if err := end(); !errors.Is(err, h.err) {
			t.Error(err)
		}
	})
}
