package responses

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestReadFrame(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       Frame
		refused    string // in the error
	}{
		{"a request", `{"type":"response.create","model":"m","input":[1, 2.0]}`, Frame{Type: FrameCreate, Body: []byte(`{"stream":true,"model":"m","input":[1, 2.0]}`)}, ""},
		{"a request without a member", `{"type":"response.create"}`, Frame{Type: FrameCreate, Body: []byte(`{"stream":true}`)}, ""},
		{"what a frame has only", ` {"stream":false,"generate":null,"x":{"type":"y"},"stream_id":"a.B_1-","background":false,"type":"response.create"} `, Frame{Type: FrameCreate, Stream: "a.B_1-", Body: []byte(`{"stream":true,"x":{"type":"y"}}`)}, ""},
		{"a warm-up", `{"type":"response.create","generate":false}`, Frame{Type: FrameCreate, WarmUp: true, Body: []byte(`{"stream":true}`)}, ""},
		{"a cancelation", `{"type":"response.cancel","response_id":"resp_1","stream_id":"a"}`, Frame{Type: FrameCancel, Stream: "a", Response: "resp_1"}, ""},
		{"an acknowledgement", `{"type":"response.processed","response_id":7}`, Frame{Type: FrameProcessed}, ""},
		{"a steer", `{"type":"response.steer","previous_response_id":"resp_1","input":"x"}`, Frame{Type: FrameSteer, Response: "resp_1"}, ""},
		{"an unknown type", `{"type":"response.append","stream_id":"a"}`, Frame{Type: "response.append", Stream: "a"}, "type: "},
		{"no type", `{}`, Frame{}, "type: "},
		{"a number as type", `{"type":1}`, Frame{}, "type: "},
		{"a name twice", `{"type":"response.cancel","type":"response.create"}`, Frame{}, "twice"},
		{"a name with an escape", `{"typ\u0065":"response.create"}`, Frame{}, "escape"},
		{"a long lane", `{"type":"response.create","stream_id":"` + strings.Repeat("a", 257) + `"}`, Frame{}, "stream_id: "},
		{"an empty lane", `{"type":"response.create","stream_id":""}`, Frame{}, "stream_id: "},
		{"a bad warm-up", `{"type":"response.create","generate":"no"}`, Frame{Type: FrameCreate}, "generate: "},
		{"in the background", `{"type":"response.create","background":true}`, Frame{Type: FrameCreate}, "background: "},
		{"a list", `[]`, Frame{}, "body: "},
		{"too deep", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), Frame{}, jsoncheck.RuleDepth},
	} {
		got, err := ReadFrame([]byte(tt.text))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if (err == nil) != (tt.refused == "") || err != nil && (!strings.Contains(err.Error(), tt.refused) || apierr.From(err).Kind != apierr.KindInvalid) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.refused)
		}
	}
	for _, text := range []string{"", "x", `{"type":"response.create"`, "{\"type\":\"\xff\"}", `{} {}`} {
		if _, err := ReadFrame([]byte(text)); !errors.Is(err, ErrNotJSON) {
			t.Errorf("%q: %v, want ErrNotJSON", text, err)
		}
	}
}

func framesOf(t *testing.T, events, stream string) (frames []string) {
	t.Helper()
	if err := EachFrame([]byte(events), stream, func(frame []byte) error { frames = append(frames, string(frame)); return nil }); err != nil {
		t.Fatal(err)
	}
	return frames
}

func TestEachFrame(t *testing.T) {
	for _, tt := range []struct {
		name, events, stream string
		want                 []string
	}{
		{"nothing", "", "", nil},
		{"a comment", ": ping\n\n", "", nil},
		{"two events", "event: a\ndata: {\"type\":\"a\",\"n\":1}\n\n: ping\n\nevent: b\ndata: {\"type\":\"b\"}\n\n", "", []string{`{"type":"a","n":1}`, `{"type":"b"}`}},
		{"in a lane", "event: a\ndata: {\"type\":\"a\",\"n\":1}\n\nevent: b\ndata: {\"type\":\"b\"}\n\n", "l", []string{`{"type":"a","stream_id":"l","n":1}`, `{"type":"b","stream_id":"l"}`}},
		{"a vendor's order", "event: a\ndata: {\"n\" : [1], \"type\":\"a\"}\n\n", "", []string{`{"type":"a","n":[1]}`}},
		{"a vendor's spaces", "event: a\ndata: { \"type\": \"a\", \"x\": {\"type\":\"y\"} }\n\n", "", []string{`{"type":"a","x":{"type":"y"}}`}},
		{"several lines", "event: a\ndata: {\"type\":\"a\",\ndata:  \"n\":1}\n\n", "", []string{"{\"type\":\"a\",\n \"n\":1}"}},
		{"a longer type", "event: a\ndata: {\"type\":\"a\", \"n\":1}\n\n", "", []string{`{"type":"a", "n":1}`}},
	} {
		got := framesOf(t, tt.events, tt.stream)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		for _, frame := range got {
			if !jsoncheck.Valid([]byte(frame)) {
				t.Errorf("%s: not JSON: %s", tt.name, frame)
			}
		}
	}
	stop := errors.New("stop")
	if err := EachFrame([]byte("data: {}\n\ndata: {}\n\n"), "", func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v, want the error of send", err)
	}
}

func TestErrorFrame(t *testing.T) {
	limited := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "Too many requests.")
	limited.RetryAfter = 1500 * time.Millisecond
	usedUp := &apierr.Error{Kind: apierr.KindRateLimited, Reason: "quota_exceeded", Class: apierr.ClassPolicy, Text: "Used up.", RetryAfter: time.Hour}
	for _, tt := range []struct {
		err          *apierr.Error
		stream, want string
	}{
		{apierr.Invalid("input", "is required"), "", `{"type":"error","status":400,"code":"invalid_request","message":"input: is required","param":"input","sequence_number":0,"headers":{"x-request-id":"req_1","x-should-retry":"false"},"error":`},
		{limited, "a", `{"type":"error","stream_id":"a","status":429,"code":"rate_limit_exceeded","message":"Too many requests. Please try again in 1.5s.","param":null,"sequence_number":0,"headers":{"x-request-id":"req_1","retry-after":"2"},"error":`},
		{usedUp, "a", `{"type":"error","stream_id":"a","status":429,"code":"rate_limit_exceeded","message":"Used up.","param":null,"sequence_number":0,"headers":{"x-request-id":"req_1","retry-after":"3600","x-should-retry":"false"},"error":`},
	} {
		got := string(ErrorFrame(tt.err, tt.stream, "req_1"))
		if nested := gjson.Get(got, "error"); !strings.HasPrefix(got, tt.want) || nested.Get("message").Str != gjson.Get(got, "message").Str || nested.Get("code").Str != gjson.Get(got, "code").Str || nested.Get("type").Str == "" {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}

// A warm-up has an id, no output and no tokens, and is remembered.
func TestWarmUp(t *testing.T) {
	x := exchange(t)
	var remembered, stored string
	x.SetRemember(func(response json.RawMessage) { remembered = string(response) })
	x.SetKeep(func(response json.RawMessage) bool { stored = string(response); return false })
	events, err := x.WarmUp("m")
	if err != nil {
		t.Fatal(err)
	}
	frames := framesOf(t, string(events), "")
	if len(frames) != 2 {
		t.Fatalf("%q", frames)
	}
	created, done := gjson.Parse(frames[0]), gjson.Parse(frames[1])
	if created.Get("type").Str != "response.created" || created.Get("response.id").Str != x.ID || created.Get("response.model").Str != "m" {
		t.Errorf("%s", created.Raw)
	}
	if !strings.HasPrefix(done.Raw, `{"type":"response.completed","sequence_number":1,"generate":false,"response":`) || done.Get("response.usage.total_tokens").Raw != "0" || done.Get("response.output").Raw != "[]" {
		t.Errorf("%s", done.Raw)
	}
	if remembered != done.Get("response").Raw || gjson.Get(remembered, "store").Bool() || !gjson.Get(stored, "store").Bool() {
		t.Errorf("remembered %s, stored %s", remembered, stored)
	}
}

func FuzzReadFrame(f *testing.F) {
	for _, seed := range []string{
		`{"type":"response.create","stream_id":"a","generate":false,"input":"x"}`, `{"type":"response.cancel"}`, `[`, "{\"type\":\"\xff\"}",
		`{"a":1,"a":2}`, `{"type":"response.create","input":[[[]]]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		frame, err := ReadFrame(text)
		if err != nil || frame.Type != FrameCreate {
			return
		}
		if _, err := dialect.Parse(frame.Body); err != nil {
			t.Fatalf("%q became %q: %v", text, frame.Body, err)
		}
		if body := gjson.ParseBytes(frame.Body); !body.Get("stream").Bool() || body.Get("type").Exists() || body.Get("stream_id").Exists() {
			t.Fatalf("%q became %q", text, frame.Body)
		}
	})
}

func FuzzEachFrame(f *testing.F) {
	f.Add([]byte("event: a\ndata: {\"n\":1,\"type\":\"a\"}\n\n: ping\n\n"), "lane")
	f.Fuzz(func(_ *testing.T, events []byte, stream string) {
		_ = EachFrame(events, stream, func([]byte) error { return nil })
	})
}

func TestReadFrameGrowsLinearly(t *testing.T) {
	read := func(text string) func() {
		frame := []byte(text)
		return func() { _, _ = ReadFrame(frame) }
	}
	growth.Linear(t, growth.Row{Name: "members", Make: func(n int) func() {
		var text strings.Builder
		text.WriteString(`{"type":"response.create"`)
		for i := range n {
			text.WriteString(`,"a` + strconv.Itoa(i) + `":1`)
		}
		return read(text.String() + "}")
	}}, growth.Row{Name: "items", Make: func(n int) func() {
		return read(`{"type":"response.create","input":[1` + strings.Repeat(`,{"a":"b"}`, n) + `]}`)
	}})
}

func TestEachFrameGrowsLinearly(t *testing.T) {
	each := func(text string) func() {
		events := []byte(text)
		return func() { _ = EachFrame(events, "a", func([]byte) error { return nil }) }
	}
	growth.Linear(t, growth.Row{Name: "events", Make: func(n int) func() {
		return each(strings.Repeat("event: a\ndata: {\"type\":\"a\",\"delta\":\"x\"}\n\n", n))
	}}, growth.Row{Name: "lines", Make: func(n int) func() {
		return each("event: a\ndata: {\"type\":\"a\",\"n\":[1" + strings.Repeat("\ndata: ,1", n) + "]}\n\n")
	}}, growth.Row{Name: "a large event in another order", Make: func(n int) func() {
		return each("event: a\ndata: {\"n\":[1" + strings.Repeat(`,{"a":"b"}`, n) + "],\"type\":\"a\"}\n\n")
	}})
}
