package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/platform/testkit"
)

// start returns what starts a part of the service, as its runner does.
func (b *bench) start(tb testing.TB) func(func(context.Context) error) {
	tb.Helper()
	return func(run func(context.Context) error) {
		ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
		var group sync.WaitGroup
		group.Go(func() { _ = run(ctx) })
		tb.Cleanup(func() {
			stop()
			group.Wait()
		})
	}
}

// ended polls a response until it has come to its end.
func (b *bench) ended(t *testing.T, id string) gjson.Result {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		got := b.say(t, "GET", responsesPath+"/"+id, "")
		response := gjson.Parse(got.body)
		switch status := response.Get("status").Str; {
		case got.status != 200:
			t.Fatalf("%s: %d %s", id, got.status, got.body)
		case status != "queued" && status != "in_progress":
			return response
		case time.Now().After(deadline):
			t.Fatalf("%s is still %s: %s", id, status, b.log.String())
		}
		select {
		case <-t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// A response in the background is queued at once, made and billed as any other, and can be read, listed and continued.
func TestBackground(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	got := b.say(t, "POST", responsesPath, `{"model":"sandbox","background":true,"metadata":{"a":"b"},"input":"hi"}`, "X-Owner-Id", "ada")
	queued := gjson.Parse(got.body)
	id := queued.Get("id").Str
	if got.status != 200 || queued.Get("status").Str != "queued" || !queued.Get("background").Bool() || !queued.Get("store").Bool() || queued.Get("output.#").Int() != 0 {
		t.Fatalf("%d %s, want a queued response", got.status, got.body)
	}
	if other := b.say(t, "GET", responsesPath+"/"+id, ""); other.status != 404 {
		t.Errorf("another owner reads %d %s, want 404", other.status, other.body)
	}
	second := gjson.Parse(b.say(t, "POST", responsesPath, `{"model":"sandbox","background":true,"input":"hi"}`).body).Get("id").Str
	response := b.ended(t, second)
	if response.Get("status").Str != "completed" || response.Get("output.0.content.0.text").Str != "sandbox: hi" || response.Get("id").Str != second ||
		!response.Get("background").Bool() || response.Get("switchyard").Exists() {
		t.Errorf("it ended as %s", response.Raw)
	}
	if items := b.say(t, "GET", responsesPath+"/"+second+"/input_items", ""); gjson.Get(items.body, "data.0.content.0.text").Str != "hi" && gjson.Get(items.body, "data.0.content").Str != "hi" {
		t.Errorf("its input is %s", items.body)
	}
	next := b.say(t, "POST", responsesPath, `{"model":"sandbox","previous_response_id":"`+second+`","input":"and?"}`)
	if next.status != 200 || gjson.Get(next.body, "output.0.content.0.text").Str != "sandbox: and?" {
		t.Errorf("continued: %d %s", next.status, next.body)
	}
	third := b.say(t, "POST", responsesPath, `{"model":"sandbox","background":true,"previous_response_id":"`+second+`","input":"once more"}`)
	if last := b.ended(t, gjson.Get(third.body, "id").Str); last.Get("previous_response_id").Str != second || last.Get("status").Str != "completed" {
		t.Errorf("it continued as %s", last.Raw)
	}
	if n := b.rows(t, "outcome = 'completed'"); n != 4 {
		t.Errorf("%d rows are billed, want 4", n)
	}
	if again := b.say(t, "POST", responsesPath+"/"+second+"/cancel", ""); again.status != 200 || gjson.Get(again.body, "status").Str != "completed" {
		t.Errorf("cancelled after its end: %d %s, want it unchanged", again.status, again.body)
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM background"); n != 0 {
		t.Errorf("%d are still made", n)
	}
}

// What can be refused at once is; what fails later ends the response as failed, with the error.
func TestBackgroundRefusals(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	for body, want := range map[string]string{
		`{"model":"sandbox","background":true,"store":false,"input":"hi"}`:         "background: needs store",
		`{"model":"sandbox","background":1,"input":"hi"}`:                          "background",
		`{"model":"none","background":true,"input":"hi"}`:                          "model",
		`{"model":"sandbox","background":true,"input":7}`:                          "input",
		`{"model":"sandbox","background":true,"stream":"x","input":"hi"}`:          "stream",
		`{"model":"sandbox","background":true,"max_output_tokens":-1,"input":"a"}`: "max_output_tokens",
	} {
		if got := b.say(t, "POST", responsesPath, body); got.status/100 != 4 || !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %s, want an error with %q", body, got.status, got.body, want)
		}
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM response"); n != 0 {
		t.Errorf("%d responses are stored, want none", n)
	}
	b.vendor.fail(400, nil, `{"error":{"message":"no such thing","type":"invalid_request_error"}}`)
	got := b.say(t, "POST", responsesPath, `{"model":"chats/wise","background":true,"switchyard":{"allow_substitution":false},"input":"hi"}`)
	response := b.ended(t, gjson.Get(got.body, "id").Str)
	if response.Get("status").Str != "failed" || response.Get("error.code").Str == "" || response.Get("error.message").Str == "" {
		t.Errorf("it ended as %s, want failed with an error", response.Raw)
	}
	plain := gjson.Get(b.say(t, "POST", responsesPath, `{"model":"sandbox","input":"hi"}`).body, "id").Str
	for _, c := range []struct{ method, path, want string }{
		{"POST", plain + "/cancel", "only a response that is made in the background"},
		{"GET", plain + "?stream=true", "stream: only a response"},
		{"GET", response.Get("id").Str + "?stream=true", "stream: only a response"},
		{"POST", "resp_none/cancel", "no such response"},
	} {
		if got := b.say(t, c.method, responsesPath+"/"+c.path, ""); got.status/100 != 4 || !strings.Contains(got.body, c.want) {
			t.Errorf("%s %s: %d %s, want %q", c.method, c.path, got.status, got.body, c.want)
		}
	}
}

// A stream has all events under consecutive numbers, and can be read again from any of them.
func TestBackgroundStream(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	for _, model := range []string{"sandbox", "native/wise"} {
		b.responds(`{"type":"response.created","sequence_number":0,"response":{"id":"resp_v","model":"wise-1","output":[]}}`,
			`{"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_v","model":"wise-1","output":[]}}`,
			`{"type":"response.output_text.delta","delta":"found"}`,
			`{"type":"response.completed","sequence_number":3,"response":{"id":"resp_v","model":"wise-1","status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":2}}}`)
		got := b.say(t, "POST", responsesPath, `{"model":"`+model+`","background":true,"stream":true,"input":"hi"}`)
		events := eventsOf(got.body)
		if got.status != 200 || len(events) < 4 || events[0].Get("type").Str != "response.created" || events[1].Get("type").Str != "response.queued" ||
			events[2].Get("type").Str != "response.in_progress" || events[len(events)-1].Get("type").Str != "response.completed" {
			t.Fatalf("%s: %d %s", model, got.status, got.body)
		}
		id := events[0].Get("response.id").Str
		for i, e := range events {
			if !e.Get("sequence_number").Exists() || e.Get("sequence_number").Int() != int64(i) {
				t.Errorf("%s: event %d has the number %s", model, i, e.Get("sequence_number").Raw)
			}
			if r := e.Get("response"); r.Exists() && r.Get("id").Str != id {
				t.Errorf("%s: %s, want the id %s", model, e.Raw, id)
			}
		}
		for _, after := range []int{0, 2, len(events) - 2} {
			again := b.say(t, "GET", fmt.Sprintf("%s/%s?stream=true&starting_after=%d", responsesPath, id, after), "")
			if want := strings.Join(strings.SplitAfter(got.body, "\n\n")[after+1:], ""); again.status != 200 || again.body != want {
				t.Errorf("%s, after %d: %d %s, want %s", model, after, again.status, again.body, want)
			}
		}
		if refused := b.say(t, "GET", responsesPath+"/"+id+"?stream=true&starting_after=x", ""); refused.status != 400 || !strings.Contains(refused.body, "starting_after") {
			t.Errorf("%d %s, want 400 that names starting_after", refused.status, refused.body)
		}
		if response := b.ended(t, id); response.Get("status").Str != "completed" {
			t.Errorf("%s: stored %s", model, response.Raw)
		}
	}
}

func eventsOf(body string) (events []gjson.Result) {
	for line := range strings.SplitSeq(body, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			events = append(events, gjson.Parse(data))
		}
	}
	return events
}

// A response that is being made ends when it is cancelled or deleted: its vendor's call too, and its readers learn it.
func TestBackgroundCancel(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	called, left := make(chan struct{}, 8), make(chan struct{}, 8)
	b.vendor.mu.Lock()
	b.vendor.fails = func(w http.ResponseWriter, r *http.Request) {
		called <- struct{}{}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"one\"}}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		left <- struct{}{}
	}
	b.vendor.mu.Unlock()
	const body = `{"model":"chats/ok","background":true,"switchyard":{"allow_substitution":false},"input":"hi"`
	for _, c := range []struct{ method, path string }{{"POST", "/cancel"}, {"DELETE", ""}} {
		id := gjson.Get(b.say(t, "POST", responsesPath, body+`}`).body, "id").Str
		b.becomes(t, id, "in_progress")
		<-called // A response is in progress a moment before its vendor is called.
		if more := b.say(t, "POST", responsesPath, `{"model":"sandbox","previous_response_id":"`+id+`","input":"x"}`); more.status != 400 || !strings.Contains(more.body, "still being made") {
			t.Errorf("continued too early: %d %s", more.status, more.body)
		}
		got := b.say(t, c.method, responsesPath+"/"+id+c.path, "")
		if got.status != 200 || c.path != "" && gjson.Get(got.body, "status").Str != "cancelled" {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.status, got.body)
		}
		<-left
		after := b.say(t, "GET", responsesPath+"/"+id, "")
		switch {
		case c.path == "" && after.status != 404:
			t.Errorf("after DELETE: %d %s", after.status, after.body)
		case c.path != "" && gjson.Get(after.body, "status").Str != "cancelled":
			t.Errorf("after its end: %d %s", after.status, after.body)
		case c.path != "":
			if again := b.say(t, c.method, responsesPath+"/"+id+c.path, ""); again.body != got.body {
				t.Errorf("cancelled again: %s, want %s", again.body, got.body)
			}
			if more := b.say(t, "POST", responsesPath, `{"model":"sandbox","previous_response_id":"`+id+`","input":"x"}`); more.status != 400 || !strings.Contains(more.body, "was cancelled") {
				t.Errorf("continued: %d %s", more.status, more.body)
			}
		}
	}
	reader := b.request(t.Context(), t, "POST", responsesPath, body+`,"stream":true}`)
	response, err := http.DefaultClient.Do(reader)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	begun, err := readUntil(response.Body, `"delta":"one"`)
	if err != nil {
		t.Fatal(err)
	}
	id := eventsOf(begun)[0].Get("response.id").Str
	b.say(t, "POST", responsesPath+"/"+id+"/cancel", "")
	<-left
	rest, err := io.ReadAll(response.Body)
	if last := eventsOf(string(rest)); err != nil || len(last) == 0 || last[len(last)-1].Get("response.status").Str != "cancelled" {
		t.Errorf("%v, the last events are %s, want one of a cancelled response", err, rest)
	}
	if n := b.rows(t, "true"); n != 3 {
		t.Errorf("%d rows, want those of the three calls", n)
	}
}

// readUntil returns what is read until a text was among it.
func readUntil(r io.Reader, want string) (string, error) {
	var text strings.Builder
	buffer := make([]byte, 4096)
	for !strings.Contains(text.String(), want) {
		n, err := r.Read(buffer)
		if text.Write(buffer[:n]); err != nil {
			return "", fmt.Errorf("%w after %s", err, text.String())
		}
	}
	return text.String(), nil
}

// becomes waits until a response has a status.
func (b *bench) becomes(t *testing.T, id, status string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for gjson.Get(b.say(t, "GET", responsesPath+"/"+id, "").body, "status").Str != status {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not become %s: %s", id, status, b.log.String())
		}
		select {
		case <-t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// What a replica that ended has begun, another one makes: anew and marked, unless readers have seen a part of it.
func TestBackgroundTakenOver(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	b.vendor.mu.Lock()
	b.vendor.fails = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"one\"}}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	b.vendor.mu.Unlock()
	const body = `{"model":"chats/ok","background":true,"switchyard":{"allow_substitution":false},"input":"hi"`
	whole := gjson.Get(b.say(t, "POST", responsesPath, body+`}`).body, "id").Str
	b.becomes(t, whole, "in_progress")
	ctx, leave := context.WithCancel(t.Context())
	response, err := http.DefaultClient.Do(b.request(ctx, t, "POST", responsesPath, body+`,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	first, err := readUntil(response.Body, `"delta":"one"`)
	leave()
	_ = response.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	streamed := eventsOf(first)[0].Get("response.id").Str
	b.vendor.mu.Lock()
	b.vendor.fails = nil
	b.vendor.mu.Unlock()
	testkit.Exec(t, b.pool, "UPDATE background SET holder = 'gone', held_until = now() - interval '1 second'")
	if r := b.ended(t, whole); r.Get("status").Str != "completed" || r.Get("switchyard.attempts").Int() != 2 {
		t.Errorf("it ended as %s, want completed at the second attempt", r.Raw)
	}
	r := b.ended(t, streamed)
	if r.Get("status").Str != "failed" || !strings.Contains(r.Get("error.message").Str, "interrupted") {
		t.Errorf("it ended as %s, want failed as interrupted", r.Raw)
	}
	again := eventsOf(b.say(t, "GET", responsesPath+"/"+streamed+"?stream=true", "").body)
	for i, e := range again {
		if e.Get("sequence_number").Int() != int64(i) {
			t.Errorf("event %d has the number %s", i, e.Get("sequence_number").Raw)
		}
	}
	if last := again[len(again)-1]; last.Get("type").Str != "response.failed" {
		t.Errorf("the last event is %s", last.Raw)
	}
}
