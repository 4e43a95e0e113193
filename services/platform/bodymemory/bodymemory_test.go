package bodymemory_test

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/bodymemory"
)

const kib = 1 << 10

// status returns the HTTP status of a refusal, 0 for none.
func status(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok || e.RetryAfter <= 0 {
		t.Fatalf("%v is no refusal that says when to come again", err)
	}
	return e.Kind.HTTPStatus()
}

// Bodies of an organization take its share, those of all the limit, and what is closed is free again.
func TestBudget(t *testing.T) {
	b := bodymemory.New(1000*kib, 600*kib, 4)
	open := func(organization string, size int64, want int) bodymemory.Hold {
		t.Helper()
		h := b.Open(organization)
		if got := status(t, h.Grow(size)); got != want {
			t.Errorf("%s, %d KiB: %d, want %d", organization, size/kib, got, want)
		}
		return h
	}
	for range 100 { // What is free is free for every body.
		open("a", bodymemory.Free, 0)
	}
	first := open("a", bodymemory.Free+150*kib, 0) // 600 KiB
	open("a", bodymemory.Free+1, http.StatusTooManyRequests)
	second := open("b", bodymemory.Free+100*kib, 0) // 400 KiB
	open("c", bodymemory.Free+1, http.StatusServiceUnavailable)
	if got := status(t, first.Grow(1)); got != http.StatusTooManyRequests {
		t.Errorf("one byte more: %d", got)
	}
	first.Close()
	first.Close() // It gives back once.
	open("c", bodymemory.Free+150*kib, 0)
	open("a", bodymemory.Free+1, http.StatusServiceUnavailable)
	second.Close()
	open("a", bodymemory.Free+100*kib, 0)
}

// Without a budget nothing is refused.
func TestNoBudget(t *testing.T) {
	var b *bodymemory.Budget
	h := b.Open("a")
	defer h.Close()
	if text, err := h.ReadAll(strings.NewReader("text"), -1); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestReadAll(t *testing.T) {
	long := strings.Repeat("x", 1000*kib)
	for name, tt := range map[string]struct {
		text      string
		announced int64
		limit     int64
		err       error
		status    int
		most      int // capacity
	}{
		"nothing":                    {"", 0, 0, nil, 0, 0},
		"nothing, unknown":           {"", -1, 0, nil, 0, 512},
		"short":                      {"text", 4, 0, nil, 0, 4},
		"short, unknown":             {"text", -1, 0, nil, 0, 512},
		"long":                       {long, int64(len(long)), 1000 * kib, nil, 0, len(long)},
		"long, unknown":              {long, -1, 1000 * kib, nil, 0, 1024 * kib},
		"less than announced":        {"text", 5, 0, io.ErrUnexpectedEOF, 0, 0},
		"no more than was announced": {long, 4, 0, nil, 0, 4},
		"too long":                   {long, int64(len(long)), 500 * kib, nil, http.StatusTooManyRequests, 0},
		"too long, unknown":          {long, -1, 500 * kib, nil, http.StatusTooManyRequests, 0},
		"a claim beyond the share":   {"text", 1 << 40, 64 * kib, nil, http.StatusTooManyRequests, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := bodymemory.New(1<<30, tt.limit, 1)
			h := b.Open("a")
			from := strings.NewReader(tt.text)
			got, err := h.ReadAll(iotest.HalfReader(from), tt.announced)
			if tt.status != 0 {
				if status(t, err) != tt.status || from.Len() > 0 {
					t.Errorf("%v with %d bytes unread, want %d after all", err, from.Len(), tt.status)
				}
				return
			}
			if !errors.Is(err, tt.err) {
				t.Fatalf("%v, want %v", err, tt.err)
			}
			want := tt.text
			if tt.announced >= 0 && int64(len(want)) > tt.announced {
				want = want[:tt.announced]
			}
			if err == nil && (string(got) != want || cap(got) > tt.most) {
				t.Errorf("%d bytes in %d, want %d in %d", len(got), cap(got), len(want), tt.most)
			}
		})
	}
}

// A claim takes no memory before the bytes arrive.
func TestReadAllAllocatesWhatArrives(t *testing.T) {
	const claim = 1 << 30
	b := bodymemory.New(claim, claim, 1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	h := b.Open("a")
	_, err := h.ReadAll(strings.NewReader("text"), claim)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, io.ErrUnexpectedEOF) || took > 1<<20 {
		t.Errorf("%v after %d bytes, want no more than 1 MiB", err, took)
	}
}
