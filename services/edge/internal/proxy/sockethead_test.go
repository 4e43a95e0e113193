package proxy

import (
	"bytes"
	"strings"
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestReadHead(t *testing.T) {
	for _, tt := range []struct {
		text                   string
		want                   head
		control, counts, ended bool
	}{
		{`{"type":"response.create","stream_id":"a","input":"x"}`, head{kind: "response.create", stream: "a"}, false, false, false},
		{`{"type":"response.cancel"}`, head{kind: "response.cancel"}, true, false, false},
		{`{ "previous_response_id": "x", "type": "response.steer", "input": [`, head{kind: "response.steer"}, true, false, false},
		{`{"type":"response.processed","response_id":"x"}`, head{kind: "response.processed"}, true, false, false},
		{`{"input":[1],"type":"response.cancel"}`, head{}, false, false, false},
		{`{"type":"response.can`, head{}, false, false, false},
		{`{"type":7}`, head{}, false, false, false},
		{``, head{}, false, false, false},
		{`[]`, head{}, false, false, false},
		{`x`, head{}, false, false, false},
		{`{"type":"response.completed","sequence_number":4,"response":{"generate":false}}`, head{kind: "response.completed"}, false, true, true},
		{`{"type":"response.completed","stream_id":"a","sequence_number":1,"generate":false,"response":{}}`, head{kind: "response.completed", stream: "a", warmUp: true}, false, false, true},
		{`{"type":"response.incomplete","response":{}}`, head{kind: "response.incomplete"}, false, true, true},
		{`{"type":"response.failed","response":{}}`, head{kind: "response.failed"}, false, false, true},
		{`{"type":"error","sequence_number":4,"code":"x"}`, head{kind: "error"}, false, false, false},
		{`{"type":"error","status":429,"code":"x"}`, head{kind: "error", refusal: true}, false, false, true},
		{`{"type":"response.output_text.delta","delta":"response.completed"}`, head{kind: "response.output_text.delta"}, false, false, false},
	} {
		got := readHead([]byte(tt.text))
		if got != tt.want || got.control() != tt.control || got.counts() != tt.counts || got.ends() != tt.ended {
			t.Errorf("%s: %+v, control %t, counts %t, ends %t", tt.text, got, got.control(), got.counts(), got.ends())
		}
	}
}

// Only what is read as such at once is a control message, whatever follows.
func FuzzReadHead(f *testing.F) {
	f.Add([]byte(`{"type":"response.cancel","type":"response.create"}`))
	f.Add([]byte("{\"a\":1e9,\"type\":\"\\u0072\xff\"}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h := readHead(text)
		if h.control() && !bytes.Contains(text, []byte("type")) && !bytes.Contains(text, []byte(`\u`)) {
			t.Errorf("%q is a control message", text)
		}
	})
}

func TestReadHeadGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Row{Name: "members", Make: func(n int) func() {
		text := []byte("{" + strings.Repeat(`"a":1,`, n) + `"type":"x"}`)
		return func() { readHead(text) }
	}}, growth.Row{Name: "a long text", Make: func(n int) func() {
		text := []byte(`{"type":"` + strings.Repeat("x", n))
		return func() { readHead(text) }
	}})
}
