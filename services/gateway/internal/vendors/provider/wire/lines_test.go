package wire_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

// readLines returns the lines of a text.
func readLines(ctx context.Context, bounds wire.LineBounds, text io.Reader) (lines []string, err error) {
	response := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(text)}
	err = wire.ReadLines(ctx, response, bounds, func(line []byte) error {
		lines = append(lines, string(line))
		return nil
	})
	return lines, err
}

func TestReadLines(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for text, want := range map[string][]string{
		"": nil, "\n\r\n \n": nil, "a": {"a"}, "a\n": {"a"}, "a\r\nb": {"a", "b"}, " a \n\n\tb\n": {"a", "b"},
		long + "\nb\n" + long: {long, "b", long}, long[:64<<10] + "\nb": {long[:64<<10], "b"}, long[:64<<10-1] + "\nb": {long[:64<<10-1], "b"},
	} {
		for way, reader := range map[string]io.Reader{
			"whole": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)), "with its end": iotest.DataErrReader(strings.NewReader(text)),
		} {
			got, err := readLines(t.Context(), wire.ResultBounds, reader)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%d bytes %s: error %v; lines (-want +got):\n%.300s", len(text), way, err, diff)
			}
		}
	}
}

// Each bound is kept to the byte, and what goes beyond one is the vendor's failure.
func TestReadLinesBounds(t *testing.T) {
	for name, tt := range map[string]struct {
		bounds wire.LineBounds
		text   string
		ok     bool
	}{
		"a line as long as may be":       {wire.LineBounds{Line: 5, Total: 99, Lines: 9}, "abcd\nabcde", true},
		"a line too long":                {wire.LineBounds{Line: 5, Total: 99, Lines: 9}, "abcdef\n", false},
		"a long line as long as may be":  {wire.LineBounds{Line: 99_999, Total: 1 << 20, Lines: 9}, strings.Repeat("x", 99_999), true},
		"a long line too long":           {wire.LineBounds{Line: 99_999, Total: 1 << 20, Lines: 9}, strings.Repeat("x", 100_000), false},
		"all as long as may be":          {wire.LineBounds{Line: 5, Total: 6, Lines: 9}, "ab\ncd\n", true},
		"all too long":                   {wire.LineBounds{Line: 5, Total: 5, Lines: 9}, "ab\ncd\n", false},
		"as many lines as may be":        {wire.LineBounds{Line: 5, Total: 99, Lines: 2}, "ab\ncd", true},
		"too many lines":                 {wire.LineBounds{Line: 5, Total: 99, Lines: 2}, "ab\ncd\nef", false},
		"too many lines, blank ones too": {wire.LineBounds{Line: 5, Total: 99, Lines: 2}, "\n\n\nab", false},
	} {
		_, err := readLines(t.Context(), tt.bounds, strings.NewReader(tt.text))
		if tt.ok {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		} else if e := providertest.ErrorOf(t, err); e.Class != apierr.ClassServerError {
			t.Errorf("%s: %v, want a server error", name, err)
		}
	}
}

// A reader that fails, a caller that leaves and one that has enough end the reading, each with its own error.
func TestReadLinesEnds(t *testing.T) {
	broken, left, enough := errors.New("broken"), errors.New("left"), errors.New("enough")
	_, err := readLines(t.Context(), wire.ResultBounds, io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)))
	if e := providertest.ErrorOf(t, err); e.Class != apierr.ClassTransient || e.Status != http.StatusOK || !errors.Is(err, broken) {
		t.Errorf("a broken connection: %v, want a failure of the connection with status 200", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	read := 0
	response := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("a\nb\nc\n"))}
	err = wire.ReadLines(ctx, response, wire.ResultBounds, func([]byte) error {
		read++
		cancel(left)
		return nil
	})
	if !errors.Is(err, left) || read != 1 {
		t.Errorf("a caller that leaves: %v after %d lines, want its cause after one", err, read)
	}
	response = &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("a\nb\nc\n"))}
	if err := wire.ReadLines(t.Context(), response, wire.ResultBounds, func([]byte) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("a caller that has enough: %v, want its own error", err)
	}
}

// The memory for a long line is charged before it is taken, and given back.
func TestReadLinesChargesMemory(t *testing.T) {
	budget := memory.New(1<<20, 100)
	hold := budget.Open("acme", 0)
	ctx := memory.NewContext(t.Context(), hold)
	if _, err := readLines(ctx, wire.ResultBounds, strings.NewReader(strings.Repeat("x", 100<<10)+"\n")); err != nil || budget.Held() != 0 {
		t.Errorf("a line of 100 KiB: %v, with %d bytes held, want none", err, budget.Held())
	}
	_, err := readLines(ctx, wire.ResultBounds, strings.NewReader(strings.Repeat("x", 8<<20)+"\n"))
	if e := providertest.ErrorOf(t, err); e.Class != apierr.ClassTransient || !errors.Is(err, memory.ErrFull) || budget.Held() != 0 {
		t.Errorf("a line of 8 MiB: %v, with %d bytes held, want that memory is full and none held", err, budget.Held())
	}
}

func TestReadLinesGrowsLinearly(t *testing.T) {
	inputs := []growth.Input{
		growth.Repeat("lines", "", "abcd\n", ""), growth.Repeat("blank lines", "", "\n", ""), growth.Repeat("a line", "", "abcdefgh", "\n"),
		growth.Repeat("long lines", "", strings.Repeat("x", 70)+"\n", ""),
	}
	growth.Linear(t, growth.Each(inputs, func(text []byte) {
		for _, reader := range []io.Reader{strings.NewReader(string(text)), iotest.OneByteReader(strings.NewReader(string(text)))} {
			response := &http.Response{Body: io.NopCloser(reader)}
			_ = wire.ReadLines(context.Background(), response, wire.ResultBounds, func([]byte) error { return nil })
		}
	})...)
}
