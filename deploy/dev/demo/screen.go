package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Screen writes output for a person.
type Screen struct {
	out    io.Writer
	colour bool
}

// NewScreen returns a screen that writes to a file, in colour when the file is a terminal
// and the environment doesn't disable it (NO_COLOR, see no-color.org, or TERM=dumb).
func NewScreen(out *os.File, lookup func(string) string) *Screen {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &Screen{out: out, colour: terminal && lookup("NO_COLOR") == "" && lookup("TERM") != "dumb"}
}

// style is an ANSI code (ECMA-48, SGR).
type style string

const (
	bold  style = "1"
	dim   style = "2"
	red   style = "31"
	green style = "32"
	cyan  style = "36"
)

func (s *Screen) in(st style, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}

// Line writes one line as it is.
func (s *Screen) Line(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

// Head writes a title, with a remark if there is one.
func (s *Screen) Head(title, remark string) {
	if remark != "" {
		remark = "  " + s.in(dim, remark)
	}
	s.Line("\n%s%s", s.in(bold, title), remark)
}

// Strong returns text in bold where colour is on.
func (s *Screen) Strong(text string) string { return s.in(bold, text) }

// Faint returns text dimmed where colour is on.
func (s *Screen) Faint(text string) string { return s.in(dim, text) }

func (s *Screen) sent(format string, args ...any) {
	s.Line("  %s %s", s.in(cyan, "→"), fmt.Sprintf(format, args...))
}

func (s *Screen) got(took time.Duration, format string, args ...any) {
	s.Line("  %s %s %s", s.in(cyan, "←"), fmt.Sprintf(format, args...), s.in(dim, "after "+span(took)))
}

// fact writes a labelled line.
func (s *Screen) fact(label, format string, args ...any) {
	s.Line("    %s %s", s.in(dim, fmt.Sprintf("%-10s", label)), fmt.Sprintf(format, args...))
}

// quoted writes a text with a bar at its left.
func (s *Screen) quoted(text string) {
	for line := range strings.Lines(text) {
		s.Line("    %s %s", s.in(dim, "│"), strings.TrimRight(line, "\n"))
	}
}

// Good writes that a result is right.
func (s *Screen) Good(format string, args ...any) {
	s.Line("  %s %s", s.in(green, "✔"), fmt.Sprintf(format, args...))
}

// Bad writes that a result is wrong.
func (s *Screen) Bad(format string, args ...any) {
	s.Line("  %s %s", s.in(red, "✘"), fmt.Sprintf(format, args...))
}

// span rounds a duration to about three digits.
func span(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	default:
		return d.Round(10 * time.Millisecond).String()
	}
}
