package telemetry

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// writes keeps what was written, write by write.
type writes struct {
	mu   sync.Mutex
	each []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.each = append(w.each, string(p))
	return len(p), nil
}

func (w *writes) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.each
}

// Lines of a moment are written together, whole and in order, at the latest after lineDelay; after the end, at once.
func TestLinesAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to writes
		l := newLines(&to)
		for i := range 10 {
			_, _ = fmt.Fprintf(l, "line %d\n", i)
			time.Sleep(lineDelay / 100)
		}
		if got := to.all(); len(got) != 0 {
			t.Errorf("written before their time: %q", got)
		}
		time.Sleep(lineDelay)
		if got := to.all(); len(got) != 1 || strings.Count(got[0], "\n") != 10 || !strings.HasPrefix(got[0], "line 0\nline 1\n") {
			t.Errorf("written %q, want ten lines together", got)
		}
		long := strings.Repeat("x", lineBytes/3) + "\n"
		for range 3 {
			_, _ = l.Write([]byte(long))
		}
		if got := to.all(); len(got) != 2 || got[1] != long+long {
			t.Errorf("%d writes, want a second one of two long lines that leave no room for a third", len(got))
		}
		huge := strings.Repeat("y", 2*lineBytes) + "\n"
		_, _ = l.Write([]byte(huge))
		if got := to.all(); len(got) != 4 || got[2] != long || got[3] != huge {
			t.Errorf("%d writes, want the line that waited and the huge one", len(got))
		}
		_, _ = l.Write([]byte("waits\n"))
		l.end()
		_, _ = l.Write([]byte("late\n"))
		if got := to.all(); len(got) != 6 || got[4] != "waits\n" || got[5] != "late\n" {
			t.Errorf("%q at the end", got[4:])
		}
	})
}

// A warning is written at once, with the lines before it.
func TestWarningsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to writes
		l := newLines(&to)
		base := slog.NewJSONHandler(l, nil)
		log := slog.New(&handler{Handler: base, base: base, sample: sample{1}, flush: l.flush})
		log.Info("first")
		log.With("a", 1).Warn("second")
		if got := to.all(); len(got) != 1 || strings.Count(got[0], "\n") != 2 {
			t.Errorf("written %q, want both lines", got)
		}
		l.end()
	})
}

// Sampling leaves out lines of calls that succeeded, the same ones everywhere, and nothing else.
func TestSample(t *testing.T) {
	var out bytes.Buffer
	base := slog.NewJSONHandler(&out, nil)
	kept := func(share Share, id, message string, level slog.Level, attrs ...slog.Attr) bool {
		out.Reset()
		record := slog.NewRecord(time.Now(), level, message, 0)
		record.AddAttrs(attrs...)
		h := &handler{Handler: base, base: base, sample: sample{share}, flush: func() {}}
		return h.Handle(WithRequestID(t.Context(), id), record) == nil && out.Len() > 0
	}
	const calls = 2000
	n := 0
	for i := range calls {
		id := fmt.Sprint("req_", i)
		first := kept(0.25, id, messageCall, slog.LevelInfo, slog.Int("status", 200))
		if first != kept(0.25, id, messageCall, slog.LevelInfo, slog.Int("status", 201)) {
			t.Errorf("%s is kept by one service only", id)
		}
		if first {
			n++
		}
	}
	if n < calls/5 || n > calls*3/10 {
		t.Errorf("kept %d of %d, want about a quarter", n, calls)
	}
	for name, tt := range map[string]struct {
		message string
		level   slog.Level
		attr    slog.Attr
		want    bool
	}{
		"success":                  {messageCall, slog.LevelInfo, slog.Int("status", 204), false},
		"refusal":                  {messageCall, slog.LevelInfo, slog.Int("status", 404), true},
		"failure":                  {messageCall, slog.LevelError, slog.Int("status", 200), true},
		"error of an answer begun": {messageCall, slog.LevelInfo, slog.String("stream_error", "cut"), true},
		"error":                    {messageCall, slog.LevelInfo, slog.String("error", "no"), true},
		"another line":             {"serving", slog.LevelInfo, slog.Int("status", 200), true},
	} {
		if got := kept(0, "req_1", tt.message, tt.level, tt.attr); got != tt.want {
			t.Errorf("%s: kept %t, want %t", name, got, tt.want)
		}
	}
}

func TestShare(t *testing.T) {
	for text, want := range map[string]Share{"0": 0, "1": 1, "0.25": 0.25, "1e-3": 0.001} {
		var got Share
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %v (%v)", text, got, err)
		}
	}
	for _, text := range []string{"", "-0.1", "1.01", "NaN", "Inf", "half"} {
		if err := new(Share).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func BenchmarkLines(b *testing.B) {
	l := newLines(discard{})
	line := []byte(strings.Repeat("x", 400) + "\n")
	for b.Loop() {
		_, _ = l.Write(line)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
