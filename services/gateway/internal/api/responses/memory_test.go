package responses

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// heap returns the bytes that are in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A stream of a million events holds the text that its last events repeat, and nothing of the events.
func TestMillionEvents(t *testing.T) {
	const events, slack = 1_000_000, 4 << 20
	delta := []byte(`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"ab"}`)
	for name, c := range map[string]struct {
		event provider.Event
		text  int // bytes of it that are kept
	}{
		"translated": {provider.Event{Text: "ab"}, 2 * events},
		"relayed":    {provider.Event{Native: delta, NativeType: "response.output_text.delta"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			s := exchange(t).Stream(dialect.Reply{Model: "m"})
			last := 0
			for range events {
				last = len(s.Event(c.event))
			}
			if held := int64(heap()) - int64(before); held > int64(4*c.text+slack) {
				t.Errorf("%d MiB are held after a million events, which have %d MiB of text", held>>20, c.text>>20)
			}
			if last == 0 || last > 512 {
				t.Errorf("an event has become %d bytes", last)
			}
			if end := s.End(provider.FinishStop, ledger.Report{}); c.text > 0 && bytes.Count(end, []byte("abab")) == 0 {
				t.Error("the end doesn't repeat the text")
			}
			runtime.KeepAlive(s)
		})
	}
}

// An item of 1 MiB is written whole in its delta and four times at its end, and read back as an item of the next turn.
func TestLargeItem(t *testing.T) {
	text := strings.Repeat("x", 1<<20)
	s := exchange(t).Stream(dialect.Reply{Model: "m"})
	events := bytes.Clone(s.Event(provider.Event{Text: text}))
	events = append(events, s.End(provider.FinishStop, ledger.Report{})...)
	if n := bytes.Count(events, []byte(text)); n != 5 {
		t.Errorf("the text is there %d times, want 5", n)
	}
	body := `{"input":[{"role":"user","content":"a"},{"role":"assistant","content":"` + text + `"},{"role":"user","content":"b"}]}`
	chat, _, err := Read([]byte(body), nil, nil)
	if err != nil || chat.Chat.Messages[1].Text() != text {
		t.Errorf("read back: %v", err)
	}
}
