package sse_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/provider/sse"
)

type event struct{ Name, Data string }

func readAll(r io.Reader) ([]event, error) {
	reader := sse.NewReader(r)
	var events []event
	for {
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

// However the bytes are cut, the events are the same.
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

func BenchmarkNext(b *testing.B) {
	stream := strings.Repeat(`data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hello "}}]}`+"\n\n", 1000)
	b.ReportAllocs()
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		reader := sse.NewReader(strings.NewReader(stream))
		for {
			if _, err := reader.Next(); err != nil {
				break
			}
		}
	}
}
