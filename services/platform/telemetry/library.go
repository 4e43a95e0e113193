package telemetry

import (
	"bytes"
	"log/slog"
)

// libraryLines takes what libraries write to the standard logger, and logs it as
// lines of the service's own form.
type libraryLines struct{ log *slog.Logger }

const (
	// unsolicited is where net/http begins to quote what a server sent unasked: a
	// receiver may repeat a secret there, and chooses how much it sends.
	unsolicited = " starting with "
	// maxLibraryLine is how much is kept of a line, in bytes: a stack is readable.
	maxLibraryLine = 4 << 10
)

// Write logs one line. The standard logger writes each with one call.
func (l libraryLines) Write(line []byte) (int, error) {
	text, _, _ := bytes.Cut(line, []byte(unsolicited))
	text = bytes.TrimSpace(text[:min(len(text), maxLibraryLine)])
	l.log.Info("library", slog.String("line", string(text)))
	return len(line), nil
}
