package batchjob_test

import (
	"bytes"
	"errors"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/serving/batchjob"
)

// pieces returns a text in pieces of a size.
func pieces(text []byte, size int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for len(text) > 0 {
			n := min(size, len(text))
			if !yield(text[:n], nil) {
				return
			}
			text = text[n:]
		}
	}
}

func linesOf(text []byte, size int) (lines []string) {
	for line, err := range batchjob.Lines(pieces(text, size)) {
		if err != nil {
			return append(lines, "error: "+err.Error())
		}
		lines = append(lines, string(line))
	}
	return lines
}

func splitLines(text []byte) (lines []string) {
	for line := range bytes.SplitSeq(text, []byte{'\n'}) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, string(line))
		}
	}
	return lines
}

func TestLines(t *testing.T) {
	for _, text := range []string{"", "a", "a\n", "\n\na\r\n\n b \n", "a\nb", "\xff\n\x00\n"} {
		for size := 1; size <= len(text)+1; size++ {
			if diff := cmp.Diff(splitLines([]byte(text)), linesOf([]byte(text), size)); diff != "" {
				t.Errorf("%q in pieces of %d (-want +got):\n%s", text, size, diff)
			}
		}
	}
	broken := errors.New("gone")
	var last error
	for _, err := range batchjob.Lines(func(yield func([]byte, error) bool) { _ = yield([]byte("a\nb"), nil) && yield(nil, broken) }) {
		last = err
	}
	if !errors.Is(last, broken) {
		t.Errorf("the error of a piece became %v", last)
	}
	long := bytes.Repeat([]byte("x"), 33<<20)
	if got := linesOf(long, 1<<20); len(got) != 1 || got[0] != "error: a line is longer than 32 MiB" {
		t.Errorf("a line of 33 MiB: %.60q", got)
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\n b\r\n\nc"), 2)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		if size < 1 || size > 64 {
			return
		}
		if diff := cmp.Diff(splitLines(text), linesOf(text, size)); diff != "" {
			t.Errorf("in pieces of %d (-want +got):\n%s", size, diff)
		}
	})
}
