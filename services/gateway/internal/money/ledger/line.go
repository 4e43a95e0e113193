package ledger

import (
	"encoding/json"
	"fmt"

	"switchyard.dev/services/platform/callcount"
)

// line is what the spool has on one line: an entry, or else the count of a call that no entry has.
type line struct {
	Entry

	Count *callcount.Count
}

// countLine is the form of a count in the spool, which tells it from an entry.
type countLine struct {
	Count *callcount.Count `json:"call_count"`
}

func (l *line) encode() (text []byte, err error) {
	if l.Count != nil {
		text, err = json.Marshal(countLine{l.Count})
	} else {
		text, err = json.Marshal(&l.Entry)
	}
	if err != nil {
		return nil, fmt.Errorf("encode ledger row: %w", err)
	}
	return text, nil
}

func decodeLine(text []byte) (l line, err error) {
	read := struct {
		*Entry

		Count **callcount.Count `json:"call_count"`
	}{&l.Entry, &l.Count}
	return l, json.Unmarshal(text, &read)
}

// split returns the entries and the counts of lines, each in their order.
func split(lines []line) (entries []Entry, counts []callcount.Count) {
	entries = make([]Entry, 0, len(lines))
	for i := range lines {
		if lines[i].Count != nil {
			counts = append(counts, *lines[i].Count)
			continue
		}
		entries = append(entries, lines[i].Entry)
	}
	return entries, counts
}
