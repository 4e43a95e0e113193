package demo

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadEvents(t *testing.T) {
	tests := []struct {
		name, stream string
		want         []event
	}{
		{"two", "data: {\"a\":1}\n\ndata: [DONE]\n\n", []event{{"", `{"a":1}`}, {"", "[DONE]"}}},
		{"named", "event: error\ndata: {}\n\n", []event{{"error", "{}"}}},
		{"comments and carriage returns", ": keep alive\r\n\r\ndata:x\r\n\r\n", []event{{"", "x"}}},
		{"several data lines", "data: a\ndata: b\n\n", []event{{"", "a\nb"}}},
		{"a name is not kept", "event: error\n\ndata: x\n\n", []event{{"", "x"}}},
		{"cut off", "data: a\n\ndata: b\n", []event{{"", "a"}}},
		{"nothing", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []event
			err := readEvents(strings.NewReader(tt.stream), func(e event) error {
				got = append(got, e)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(event{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadEventsStopsAtTheFirstError(t *testing.T) {
	enough := errors.New("enough")
	calls := 0
	err := readEvents(strings.NewReader("data: a\n\ndata: b\n\n"), func(event) error {
		calls++
		return enough
	})
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add("data: {\"content\":\"x\"}\n\ndata: [DONE]\n\n")
	f.Add("event: error\r\ndata\n:\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		lines := strings.Count(stream, "\n") + 1
		events := 0
		err := readEvents(strings.NewReader(stream), func(e event) error {
			events++
			if strings.Contains(e.name, "\n") {
				t.Errorf("a name over two lines: %q", e.name)
			}
			return nil
		})
		if err == nil && events > lines {
			t.Errorf("%d events in %d lines", events, lines)
		}
	})
}
