package sse_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
)

type event struct{ Name, Data string }

func readAll(r io.Reader) ([]event, error) {
	reader := sse.NewReader(r)
	var events []event
	for {
		_ = reader.Buffered()
		e, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, event{e.Name, string(e.Data)})
	}
}

// pieces is a source that returns one piece with each read, and counts the reads.
type pieces struct {
	rest  []string
	reads int
}

func (p *pieces) Read(into []byte) (int, error) {
	p.reads++
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(into, p.rest[0])
	if p.rest[0] = p.rest[0][n:]; p.rest[0] == "" {
		p.rest = p.rest[1:]
	}
	return n, nil
}

// Next reads from the source exactly if no event is buffered, wherever the text is cut.
func TestBuffered(t *testing.T) {
	lines := []string{"data: a", "data:b", "data", "event: x", ": comment", "id: 1", "database: no", "", ""}
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for range rapid.IntRange(0, 20).Draw(t, "lines") {
			text.WriteString(rapid.SampledFrom(lines).Draw(t, "line") + rapid.SampledFrom([]string{"\n", "\r", "\r\n"}).Draw(t, "end"))
		}
		source := &pieces{}
		for rest := text.String(); rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			source.rest, rest = append(source.rest, rest[:n]), rest[n:]
		}
		reader := sse.NewReader(source)
		var got []event
		for {
			buffered, reads := reader.Buffered(), source.reads
			e, err := reader.Next()
			if buffered == (source.reads > reads) {
				t.Fatalf("%q: buffered is %t before event %d, which took %d reads", text.String(), buffered, len(got), source.reads-reads)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, event{e.Name, string(e.Data)})
		}
		want, err := readAll(strings.NewReader(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-whole +cut):\n%s", text.String(), diff)
		}
	})
}

func TestNext(t *testing.T) {
	tests := map[string]struct {
		stream string
		want   []event
	}{
		"plain":                  {"data: a\n\ndata: b\n\n", []event{{"", "a"}, {"", "b"}}},
		"named":                  {"event: ping\ndata: {}\n\n", []event{{"ping", "{}"}}},
		"carriage returns":       {"data: a\r\rdata: b\r\n\r\n", []event{{"", "a"}, {"", "b"}}},
		"several data lines":     {"data: a\ndata:\ndata:  b\n\n", []event{{"", "a\n\n b"}}},
		"comments and unknown":   {": keep-alive\nid: 7\nretry: 5\ndata: a\n\n", []event{{"", "a"}}},
		"no space":               {"data:a\n\n", []event{{"", "a"}}},
		"name without data":      {"event: x\n\ndata: a\n\n", []event{{"", "a"}}},
		"no blank line at end":   {"data: a\n\ndata: b", []event{{"", "a"}, {"", "b"}}},
		"empty data":             {"data\n\n", []event{{"", ""}}},
		"nothing":                {"", nil},
		"longer than the buffer": {"data: " + strings.Repeat("x", 9000) + "\n\n", []event{{"", strings.Repeat("x", 9000)}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for way, r := range map[string]io.Reader{
				"at once":      strings.NewReader(tt.stream),
				"byte by byte": iotest.OneByteReader(strings.NewReader(tt.stream)),
				"data and EOF": iotest.DataErrReader(strings.NewReader(tt.stream)),
			} {
				got, err := readAll(r)
				if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
					t.Errorf("%s: err %v (-want +got):\n%s", way, err, diff)
				}
			}
		})
	}
}

func TestBounded(t *testing.T) {
	endless := io.MultiReader(strings.NewReader("data: "), strings.NewReader(strings.Repeat("x", sse.MaxEvent+1)))
	if _, err := readAll(endless); !errors.Is(err, sse.ErrTooLarge) {
		t.Errorf("one endless line: err = %v", err)
	}
	many := strings.NewReader(strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 17) + "\n")
	if _, err := readAll(many); !errors.Is(err, sse.ErrTooLarge) {
		t.Errorf("endless lines: err = %v", err)
	}
}

func TestReadErrorComesAfterWhatArrived(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(io.ErrUnexpectedEOF))
	got, err := readAll(broken)
	if len(got) != 1 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("events %v, err %v", got, err)
	}
}

// The events are the same in whatever pieces the bytes arrive.
func FuzzNext(f *testing.F) {
	f.Add("event: a\r\ndata: 1\r\n\r\n:c\rdata:2\n\n")
	f.Add("data\n\ndata:\r\r\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		whole, err := readAll(strings.NewReader(stream))
		bytewise, err2 := readAll(iotest.OneByteReader(strings.NewReader(stream)))
		if diff := cmp.Diff(whole, bytewise); diff != "" || (err == nil) != (err2 == nil) {
			t.Errorf("errs %v, %v (-whole +bytewise):\n%s", err, err2, diff)
		}
	})
}

// BenchmarkNext measures the cost of one event; no event costs an allocation.
func BenchmarkNext(b *testing.B) {
	for name, event := range map[string]string{
		"plain": `data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hello "}}]}` + "\n\n",
		"named": "event: content_block_delta\n" +
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello "}}` + "\n\n",
	} {
		b.Run(name, func(b *testing.B) {
			reader := sse.NewReader(providertest.Repeat(event))
			b.ReportAllocs()
			b.SetBytes(int64(len(event)))
			for b.Loop() {
				if _, err := reader.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	reader := sse.NewReader(providertest.Repeat("event: a\ndata: {}\n\n"))
	if n := testing.AllocsPerRun(1000, func() { _, _ = reader.Next() }); n > 0 {
		t.Errorf("%v allocations an event", n)
	}
}

// A vendor that gives each event a new name doesn't make the reader grow.
func TestManyNames(t *testing.T) {
	var stream strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&stream, "event: n%d\ndata: %d\n\n", i, i)
	}
	events, err := readAll(strings.NewReader(stream.String()))
	if err != nil || len(events) != 1000 || events[999] != (event{"n999", "999"}) {
		t.Errorf("%d events, err %v", len(events), err)
	}
}

// Buffers beyond the first are charged: for long lines, and for events of many lines. Names are cut off.
func TestWhatIsHeldIsCharged(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for name, tt := range map[string]struct {
		stream string
		least  int64
	}{
		"a small event":      {"data: a\n\n", 0},
		"a long line":        {"data: " + big + "\n\n", 1 << 20},
		"many lines":         {strings.Repeat("data: x\n", 100_000) + "\n", 200_000},
		"a long name":        {"event: " + big + "\ndata: a\n\n", 1 << 20},
		"many long names":    {strings.Repeat("event: "+big+"\ndata: a\n\n", 8), 1 << 20},
		"a comment, endless": {":" + big, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			budget := memory.New(4<<20, 100)
			reader := sse.NewReader(strings.NewReader(tt.stream)).Charge(budget.Open("acme", 0))
			for {
				e, err := reader.Next()
				if err != nil {
					break
				}
				if len(e.Name) > 128 {
					t.Errorf("a name of %d bytes", len(e.Name))
				}
			}
			held := budget.Held() / memory.Weight
			if held < tt.least || held > 4*tt.least+1<<12 {
				t.Errorf("%d bytes are charged, want about %d", held, tt.least)
			}
			full := memory.New(1<<10, 100)
			reader = sse.NewReader(strings.NewReader(tt.stream)).Charge(full.Open("acme", 0))
			var err error
			for err == nil {
				_, err = reader.Next()
			}
			if tt.least > 0 != errors.Is(err, memory.ErrFull) {
				t.Errorf("without memory: %v", err)
			}
		})
	}
}

// A stream ends at MaxStream, whatever its content.
func TestStreamsAreBounded(t *testing.T) {
	_, err := readAll(providertest.Repeat(strings.Repeat(": "+strings.Repeat("x", 4000)+"\n\n", 16)))
	if !errors.Is(err, sse.ErrEndless) {
		t.Errorf("endless comments: %v", err)
	}
}

func TestLowerBounds(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want error
	}{
		"a large event":        {"data: " + strings.Repeat("a", 200) + "\n\n", sse.ErrTooLarge},
		"an event of lines":    {strings.Repeat("data: a\n", 200) + "\n", sse.ErrTooLarge},
		"a line that is held":  {":" + strings.Repeat("a", 8<<10), sse.ErrTooLarge},
		"many comments":        {strings.Repeat(":a\n", 8<<10), sse.ErrEndless},
		"an event that passes": {"data: a\n\n", io.EOF},
	} {
		r := sse.NewReader(strings.NewReader(tt.text)).Bound(100, 16<<10)
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func TestResumption(t *testing.T) {
	for text, want := range map[string]struct {
		id   string
		wait time.Duration
	}{
		"data: a\n\n":                          {},
		"id: a_1\ndata:\n\nretry: 1500\n\n":    {"a_1", 1500 * time.Millisecond},
		"id: a\ndata: b\n\nid: c\ndata: d\n\n": {"c", 0},
		"id: a\n\nid\ndata: d\n\n":             {},
		"id: a\x00b\ndata: d\n\n":              {},
		"id: a\nid: " + strings.Repeat("b", 2000) + "\nretry: soon\nretry: -1\nretry: 99999999999\ndata: c\n\n": {"a", 0},
	} {
		r := sse.NewReader(strings.NewReader(text))
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if id, wait := r.Resumption(); id != want.id || wait != want.wait {
			t.Errorf("%.40q: %.40q after %v, want %q after %v", text, id, wait, want.id, want.wait)
		}
	}
}
