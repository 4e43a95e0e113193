package telemetry

import (
	"bytes"
	"log/slog"
)

// libraryLines is an io.Writer that logs what libraries write to the standard logger as lines of the service's own
// format.
type libraryLines struct{ log *slog.Logger }

const (
	// unsolicited begins the part of a net/http message that quotes what a server sent unasked. The quote is removed: a
	// receiver may repeat a secret in it, and chooses its size.
	unsolicited = " starting with "
	// maxLibraryLine is how much of a line is kept, in bytes: enough to read a stack trace.
	maxLibraryLine = 4 << 10
)

// Write logs one line. The standard logger writes each line with one call.
func (l libraryLines) Write(line []byte) (int, error) {
	text, _, _ := bytes.Cut(line, []byte(unsolicited))
	text = bytes.TrimSpace(text[:min(len(text), maxLibraryLine)])
	l.log.Info("library", slog.String("line", string(text)))
	return len(line), nil
}
