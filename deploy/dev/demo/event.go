package demo

import (
	"bufio"
	"io"
	"strings"
)

// event is one server-sent event.
type event struct{ name, data string }

const maxEvent = 1 << 20

// readEvents passes each event of a stream to take as it arrives (WHATWG HTML, section 9.2.6), until the stream ends
// or take returns an error.
func readEvents(stream io.Reader, take func(event) error) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxEvent)
	var e event
	var data []string
	for lines.Scan() {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if line == "" {
			if data != nil {
				e.data = strings.Join(data, "\n")
				if err := take(e); err != nil {
					return err
				}
			}
			e, data = event{}, nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name = value
		case "data":
			data = append(data, value)
		}
	}
	return lines.Err()
}
