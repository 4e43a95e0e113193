package eventstream_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	aws "github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider/eventstream"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/testkit/growth"
)

// message is a copy of a message.
type message struct{ Type, Name, Text, Payload string }

func readAll(r io.Reader) ([]message, error) {
	reader := eventstream.NewReader(r)
	var all []message
	for {
		_ = reader.Buffered()
		m, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, message{m.Type, m.Name, m.Text, string(m.Payload)})
	}
}

// frame returns a message as AWS's encoder writes it.
func frame(tb testing.TB, payload string, headers aws.Headers) string {
	tb.Helper()
	var out bytes.Buffer
	if err := aws.NewEncoder().Encode(&out, aws.Message{Headers: headers, Payload: []byte(payload)}); err != nil {
		tb.Fatal(err)
	}
	return out.String()
}

func event(tb testing.TB, name, payload string) string {
	tb.Helper()
	return frame(tb, payload, aws.Headers{
		{Name: ":event-type", Value: aws.StringValue(name)},
		{Name: ":content-type", Value: aws.StringValue("application/json")},
		{Name: ":message-type", Value: aws.StringValue("event")},
	})
}

// Messages of all kinds, with headers of all types, are read as AWS's encoder writes them.
func TestReader(t *testing.T) {
	others := aws.Headers{
		{Name: "a", Value: aws.BoolValue(true)},
		{Name: "b", Value: aws.BoolValue(false)},
		{Name: "c", Value: aws.Int8Value(-1)},
		{Name: "d", Value: aws.Int16Value(2)},
		{Name: "e", Value: aws.Int32Value(3)},
		{Name: "f", Value: aws.Int64Value(4)},
		{Name: "g", Value: aws.BytesValue("bytes")},
		{Name: "h", Value: aws.TimestampValue(time.UnixMilli(5))},
		{Name: "i", Value: aws.UUIDValue{1, 2, 3}},
		{Name: ":event-type", Value: aws.Int8Value(7)},
		{Name: strings.Repeat("n", 255), Value: aws.StringValue("")},
	}
	text := event(t, "messageStart", `{"role":"assistant"}`) + frame(t, "", nil) + frame(t, "p", others) +
		frame(t, `{"message":"m"}`, aws.Headers{
			{Name: ":exception-type", Value: aws.StringValue("throttlingException")}, {Name: ":message-type", Value: aws.StringValue("exception")},
		}) +
		frame(t, "", aws.Headers{
			{Name: ":message-type", Value: aws.StringValue("error")},
			{Name: ":error-code", Value: aws.StringValue("500")},
			{Name: ":error-message", Value: aws.StringValue("broken")},
		}) + event(t, "large", strings.Repeat("x", 100_000))
	want := []message{
		{"event", "messageStart", "", `{"role":"assistant"}`},
		{},
		{"", "", "", "p"},
		{"exception", "throttlingException", "", `{"message":"m"}`},
		{"error", "500", "broken", ""},
		{"event", "large", "", strings.Repeat("x", 100_000)},
	}
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)),
		"with its end": iotest.DataErrReader(strings.NewReader(text)),
	} {
		got, err := readAll(r)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// A stream that ends within a message is broken, wherever it is cut.
func TestCutMessages(t *testing.T) {
	first, second := event(t, "a", "{}"), event(t, "b", `{"text":"hello"}`)
	for at := range len(first + second) {
		got, err := readAll(strings.NewReader((first + second)[:at]))
		if clean := at == 0 || at == len(first); clean != (err == nil) || !clean && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut after %d bytes: %v, %v", at, got, err)
		}
	}
}

// A message with any bit turned is never read.
func TestTurnedBits(t *testing.T) {
	whole := event(t, "a", "{}")
	for at := range 8 * len(whole) {
		turned := []byte(whole)
		turned[at/8] ^= 1 << (at % 8)
		if got, err := readAll(bytes.NewReader(turned)); err == nil || len(got) > 0 {
			t.Errorf("bit %d: %v, %v", at, got, err)
		}
	}
}

// head returns a prelude with a right checksum.
func head(size, headers uint32) string {
	p := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, size), headers)
	return string(binary.BigEndian.AppendUint32(p, crc32.ChecksumIEEE(p)))
}

// raw returns a message of these headers with right lengths and checksums.
func raw(headers, payload string) string {
	text := head(uint32(len(headers)+len(payload)+16), uint32(len(headers))) + headers + payload
	return text + string(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(text))))
}

func TestRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"no length":                  {head(0, 0), eventstream.ErrBroken},
		"a length below the frame's": {head(15, 0), eventstream.ErrBroken},
		"headers beyond the message": {head(20, 8), eventstream.ErrBroken},
		"headers that wrap around":   {head(16, 1<<32-1), eventstream.ErrTooLarge},
		"large headers":              {head(1<<20, 128<<10+1), eventstream.ErrTooLarge},
		"a large message":            {head(16<<20+1, 0), eventstream.ErrTooLarge},
		"the largest length":         {head(1<<32-1, 0), eventstream.ErrTooLarge},
		"a prelude's checksum":       {strings.Replace(head(16, 0), "\x10", "\x11", 1), eventstream.ErrChecksum},
		"text":                       {"data: {}\n\ndata: {}\n\n", eventstream.ErrChecksum},
		"a header without a name":    {raw("\x05", ""), eventstream.ErrBroken},
		"a header without a type":    {raw("\x01a", ""), eventstream.ErrBroken},
		"an unknown type":            {raw("\x01a\x0a", ""), eventstream.ErrBroken},
		"a string without a length":  {raw("\x01a\x07\x00", ""), eventstream.ErrBroken},
		"a string that is cut":       {raw("\x01a\x07\x00\x02x", ""), eventstream.ErrBroken},
		"an integer that is cut":     {raw("\x01a\x04\x00\x00\x00", "xx"), eventstream.ErrBroken},
	} {
		if got, err := readAll(strings.NewReader(c.text)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
}

// A message of the largest size is read, and a stream without an end is not.
func TestBounds(t *testing.T) {
	largest := raw("", strings.Repeat("x", 16<<20-16))
	if got, err := readAll(strings.NewReader(largest)); err != nil || len(got) != 1 {
		t.Errorf("the largest message: %d, %v", len(got), err)
	}
	if _, err := readAll(providertest.Repeat(largest)); !errors.Is(err, eventstream.ErrEndless) {
		t.Errorf("an endless stream: %v", err)
	}
}

// A length costs no memory before that many bytes arrive, and what a message takes is charged.
func TestMemoryFollowsWhatArrives(t *testing.T) {
	announced := head(16<<20, 0) + strings.Repeat("x", 1000)
	if n := growth.Allocated(func() { _, _ = readAll(strings.NewReader(announced)) }); n > 64<<10 {
		t.Errorf("an announced message takes %d bytes", n)
	}
	hold := memory.New(1<<20, 100).Open("org", 1<<20)
	defer hold.Close()
	_, err := eventstream.NewReader(strings.NewReader(raw("", strings.Repeat("x", 4<<20)))).Charge(hold).Next()
	if !errors.Is(err, memory.ErrFull) {
		t.Errorf("a message larger than the memory: %v", err)
	}
}

// Next reads from the source exactly if no message is buffered, wherever the stream is cut.
func TestBuffered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for range rapid.IntRange(0, 6).Draw(t, "messages") {
			text.WriteString(raw("\x01a\x00", strings.Repeat("x", rapid.IntRange(0, 50).Draw(t, "size"))))
		}
		source := &counted{iotest.OneByteReader(strings.NewReader(text.String())), 0}
		if rapid.Bool().Draw(t, "large pieces") {
			source.Reader = strings.NewReader(text.String())
		}
		reader := eventstream.NewReader(source)
		for {
			before, buffered := source.reads, reader.Buffered()
			_, err := reader.Next()
			if read := source.reads > before; read == buffered {
				t.Fatalf("buffered is %t, read is %t", buffered, read)
			}
			if err != nil {
				return
			}
		}
	})
}

// counted counts the reads of a source.
type counted struct {
	io.Reader

	reads int
}

func (c *counted) Read(p []byte) (int, error) {
	c.reads++
	return c.Reader.Read(p)
}

// Of all that AWS's decoder reads, the same is read; and reading anything ends.
func FuzzNext(f *testing.F) {
	f.Add([]byte(event(f, "a", "{}")))
	f.Add([]byte(raw("\x01a\x0a", "")))
	f.Add([]byte(head(16, 1<<32-1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readAll(bytes.NewReader(data))
		var want []message
		for rest := bytes.NewReader(data); rest.Len() > 0; {
			m, err := aws.NewDecoder().Decode(rest, nil)
			if err != nil {
				break
			}
			want = append(want, message{"", "", "", string(m.Payload)})
		}
		for i := range got {
			if i >= len(want) {
				t.Fatalf("message %d is one that AWS's decoder refuses", i)
			}
			if got[i].Payload != want[i].Payload {
				t.Errorf("message %d: %q, want %q", i, got[i].Payload, want[i].Payload)
			}
		}
		if err == nil && len(got) != len(want) {
			t.Errorf("%d messages, want %d", len(got), len(want))
		}
	})
}

func TestNextGrowsLinearly(t *testing.T) {
	var rows []growth.Row
	add := func(name string, text func(n int) string) {
		rows = append(rows, growth.Row{Name: name, Make: func(n int) func() {
			made := text(n)
			return func() {
				_, _ = readAll(strings.NewReader(made))
				_, _ = readAll(iotest.HalfReader(strings.NewReader(made)))
			}
		}})
	}
	add("messages", func(n int) string { return strings.Repeat(raw("\x01a\x00", "x"), n) })
	add("a payload", func(n int) string { return raw("", strings.Repeat("x", min(n, 1<<17)*100)) })
	add("headers", func(n int) string {
		var headers strings.Builder
		for i := range min(n, 10_000) {
			name := strconv.Itoa(i)
			headers.WriteString(string(rune(len(name))) + name + "\x00")
		}
		return raw(headers.String(), "")
	})
	add("names", func(n int) string {
		var text strings.Builder
		for i := range min(n, 1<<15) {
			name := strconv.Itoa(i)
			text.WriteString(raw("\x0b:event-type\x07\x00"+string(rune(len(name)))+name, ""))
		}
		return text.String()
	})
	growth.Linear(t, rows...)
}
