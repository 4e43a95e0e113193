package memory

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"switchyard.dev/services/platform/fairshare"
)

func TestReadAll(t *testing.T) {
	failed := errors.New("it broke off")
	text := strings.Repeat("0123456789", 300_000)
	cases := []struct {
		name      string
		from      io.Reader
		announced int64
		largest   int64
		want      string
		err       error
	}{
		{"nothing", strings.NewReader(""), -1, 10, "", nil},
		{"as announced", strings.NewReader("hello"), 5, 10, "hello", nil},
		{"less than announced", strings.NewReader("hello"), 9, 10, "hello", nil},
		{"more than announced", strings.NewReader("hello"), 2, 10, "hello", nil},
		{"byte by byte", iotest.OneByteReader(strings.NewReader(text[:20_000])), -1, 1 << 20, text[:20_000], nil},
		{"many pieces", strings.NewReader(text), -1, 1 << 22, text, nil},
		{"exactly the largest", strings.NewReader(text[:100]), -1, 100, text[:100], nil},
		{"one too many", strings.NewReader(text[:101]), -1, 100, "", ErrTooLarge},
		{"announces too much", strings.NewReader("hello"), 101, 100, "", ErrTooLarge},
		{"breaks off", io.MultiReader(strings.NewReader(text[:9000]), iotest.ErrReader(failed)), -1, 1 << 20, "", failed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := &Budget{pool: fairshare.New(1<<30, 100)}
			h := b.Open("acme", 0)
			got, err := ReadAll(h, c.from, c.announced, c.largest)
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if string(got) != c.want {
				t.Errorf("%d bytes, want %d", len(got), len(c.want))
			}
			if held := b.Held(); c.err != nil && held != 0 {
				t.Errorf("%d bytes are charged after a failure", held)
			}
			if held := b.Held(); c.err == nil && held < Weight*int64(len(c.want)) {
				t.Errorf("%d bytes are charged for %d", held, len(c.want))
			}
			h.Close()
			if held := b.Held(); held != 0 {
				t.Errorf("%d bytes are charged after the end", held)
			}
		})
	}
}

// The charge is never far above the bytes received: an announced length is not trusted.
func TestChargeFollowsWhatComes(t *testing.T) {
	const come = 3 << 20
	b := New(1<<40, 100)
	h := b.Open("acme", 0)
	r, w := io.Pipe()
	var readers sync.WaitGroup
	readers.Go(func() { _, _ = ReadAll(h, r, 1<<35, 1<<36) })
	if _, err := w.Write(bytes.Repeat([]byte("x"), come)); err != nil {
		t.Fatal(err)
	}
	if held := b.Held(); held > Weight*(come+2*largestPiece) {
		t.Errorf("%d bytes are charged while %d have come", held, come)
	}
	_ = w.Close()
	readers.Wait()
}

// The memory for joining an answer grows linearly with its length.
func TestReadAllIsLinear(t *testing.T) {
	allocated := func(n int64) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = ReadAll(nil, io.LimitReader(zeros{}, n), -1, 1<<30)
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	if small, large := allocated(1<<20), allocated(4<<20); large > 6*small {
		t.Errorf("four times the length takes %.1f times the memory", large/small)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestHold(t *testing.T) {
	b := New(1000, 75)
	h := b.Open("acme", 7)
	if err := h.Charge(376); !errors.Is(err, ErrFull) {
		t.Errorf("more than the organization's part: %v", err)
	}
	if err := h.Charge(300); err != nil {
		t.Fatal(err)
	}
	h.Return(100)
	if held := b.Held(); held != Weight*200 {
		t.Errorf("%d held, want %d", held, Weight*200)
	}
	h.Return(1000) // Never more than was taken.
	if held := b.Held(); held != 0 {
		t.Errorf("%d held, want none", held)
	}
	h.Close()
	if err := h.Charge(10); err != nil || b.Held() != 0 {
		t.Errorf("charged after its end: %v, %d held", err, b.Held())
	}
	if got := h.Largest(9); got != 7 {
		t.Errorf("largest %d", got)
	}
	var none *Hold
	none.Return(1)
	none.Close()
	if err := none.Charge(1 << 40); err != nil || none.Largest(9) != 9 {
		t.Errorf("no hold: %v, %d", err, none.Largest(9))
	}
	ctx := NewContext(context.Background(), h)
	if FromContext(ctx) != h || FromContext(context.Background()) != nil {
		t.Error("the context has another hold")
	}
	if held := (*Budget)(nil).Open("acme", 3); held.Charge(1<<40) != nil || held.Largest(9) != 3 {
		t.Error("without a budget only single answers are bounded")
	}
}

// Each request has a free part beside the budget, so that an ordinary answer succeeds while others hold the whole
// budget.
func TestOrdinaryAnswersNeedNoBudget(t *testing.T) {
	b := New(1<<20, 100)
	endless := b.Open("acme", 0)
	for endless.Charge(256) == nil {
	}
	ordinary := b.Open("other", 0)
	if err := ordinary.Charge(512); err != nil {
		t.Errorf("an ordinary answer: %v", err)
	}
	if err := ordinary.Charge(1); !errors.Is(err, ErrFull) {
		t.Errorf("more than the part: %v, want ErrFull", err)
	}
	ordinary.Return(512)
	if err := ordinary.Charge(512); err != nil {
		t.Errorf("the part again, once it was returned: %v", err)
	}
	full := b.Held()
	ordinary.Close()
	if b.Held() != full {
		t.Errorf("the end gave %d bytes back that were not taken", full-b.Held())
	}
	endless.Close()
	if b.Held() != 0 {
		t.Errorf("%d bytes are charged after the end", b.Held())
	}
}
