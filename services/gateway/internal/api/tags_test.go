package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
)

// tagged selects the rows of calls by ann with two tags.
const tagged = `user_id = 'ann' AND key_id = 'k1' AND tags = '{"team": "web ü", "feature": "search"}'`

const (
	tagsHeader = "team=web%20%C3%BC, feature=search"
	tagsField  = `{"team":"web ü","feature":"search"}`
)

// taggedFaces are bodies of a path, in which %s is the place for the field of tags.
var taggedFaces = map[string]string{
	chatPath:                 `{"model":"sandbox",` + messages + `%s}`,
	"/v1/vision":             `{"model":"sandbox","prompt":"what?","image":{"base64":"` + pngText + `"}%s}`,
	"/v1/images/generations": `{"model":"sandbox","prompt":"a cat"%s}`,
	"/v1/embeddings":         `{"model":"first/vectors","input":"hi"%s}`,
	completions:              `{"model":"sandbox",` + messages + `%s}`,
	messagesPath:             `{"model":"sandbox","max_tokens":9,` + messages + `%s}`,
	responsesPath:            `{"model":"sandbox","input":"hi"%s}`,
}

// field returns the part of a body with tags, in the contract's or another API's form.
func field(path, tags string) string {
	switch path {
	case completions, messagesPath, responsesPath:
		return `,"switchyard":{"tags":` + tags + `}`
	}
	return `,"tags":` + tags
}

// Tags, the user and the key of a call are in its ledger row, whether they come in the body or in the header.
func TestTagsOfEveryFace(t *testing.T) {
	b := setup(t)
	for path, body := range taggedFaces {
		t.Run(path, func(t *testing.T) {
			before := b.rows(t, tagged)
			b.post(t, path, fmt.Sprintf(body, field(path, tagsField)), "X-Key-Id", "k1", "X-User-Id", "ann").gives(t, http.StatusOK)
			b.post(t, path, fmt.Sprintf(body, ""), "X-Key-Id", "k1", "X-User-Id", "ann", "X-Switchyard-Tags", tagsHeader).gives(t, http.StatusOK)
			b.post(t, path, fmt.Sprintf(body, field(path, tagsField)), "X-Key-Id", "k1", "X-User-Id", "ann", "X-Switchyard-Tags", tagsHeader).gives(t, http.StatusOK)
			if n := b.rows(t, tagged) - before; n != 3 {
				t.Errorf("%d rows with user, key and tags, want 3", n)
			}
		})
	}
}

// Tags beyond their bounds are refused before anything is called or recorded, and no error repeats a value.
func TestTagsBeyondBounds(t *testing.T) {
	b := setup(t)
	const value = "verysecretvalue"
	for path, body := range taggedFaces {
		for tags, rule := range map[string]string{
			`{"Team":"` + value + `"}`:                     "tags: a name must",
			`{"team":"` + strings.Repeat(value, 20) + `"}`: "tags: a value must",
			`{"team":"` + value + `\u0007"}`:               "tags: a value must",
			`{"a":"1","b":"1","c":"1","d":"1","e":"1","f":"1","g":"1","h":"1","i":"1","j":"1","k":"` + value + `"}`: "tags: must have at most 10",
		} {
			got := b.post(t, path, fmt.Sprintf(body, field(path, tags)))
			if got.contains(t, http.StatusBadRequest, rule); strings.Contains(got.body, value) {
				t.Errorf("%s: the error repeats a value: %s", path, got.body)
			}
		}
		got := b.post(t, path, fmt.Sprintf(body, ""), "X-Switchyard-Tags", "team="+value+",team=x")
		if got.contains(t, http.StatusBadRequest, "X-Switchyard-Tags: a name appears twice"); strings.Contains(got.body, value) {
			t.Errorf("%s: the error repeats a value: %s", path, got.body)
		}
		b.post(t, path, fmt.Sprintf(body, field(path, `{"team":"app"}`)), "X-Switchyard-Tags", "team=web").
			contains(t, http.StatusBadRequest, "tags: differs from the header X-Switchyard-Tags")
	}
	if n := b.rows(t, "true"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestTagsOverGRPC(t *testing.T) {
	b := setup(t)
	client, md := b.client()
	chat := func(header string, tags map[string]string) error {
		md := metadata.Join(md, metadata.Pairs("x-switchyard-tags", header, "x-user-id", "ann", "x-key-id", "k1"))
		_, err := client.Chat(metadata.NewOutgoingContext(t.Context(), md), &gatewayv1.LlmRequest{
			Model: "sandbox", Tags: tags, Messages: []*gatewayv1.ChatMessage{{Role: "user", Content: []byte(`"hi"`)}},
		})
		return err
	}
	both := map[string]string{"team": "web ü", "feature": "search"}
	for _, err := range []error{chat(tagsHeader, nil), chat("", both), chat(tagsHeader, both)} {
		if err != nil {
			t.Error(err)
		}
	}
	if err := chat("team=app", both); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "tags: differs") {
		t.Errorf("different tags: %v", err)
	}
	if n := b.rows(t, tagged); n != 3 {
		t.Errorf("%d rows, want 3", n)
	}
}

func TestTagsOfAWebSocket(t *testing.T) {
	b := setup(t)
	c := b.connects(t, "X-Switchyard-Tags", tagsHeader, "X-User-Id", "ann", "X-Key-Id", "k1")
	c.asks(t, `{"type":"response.create","model":"sandbox","input":"hi"}`)
	if event := c.refused(t, `{"type":"response.create","model":"sandbox","input":"hi","switchyard":{"tags":{"team":"app"}}}`); !strings.Contains(event.Raw, "tags: differs") {
		t.Error(event.Raw)
	}
	plain := b.connects(t, "X-User-Id", "ann", "X-Key-Id", "k1")
	plain.asks(t, `{"type":"response.create","model":"sandbox","input":"hi","switchyard":{"tags":`+tagsField+`}}`)
	if n := b.rows(t, tagged); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

func TestTagsInTheBackground(t *testing.T) {
	b := setup(t)
	body := `{"model":"sandbox","background":true,"input":"hi"%s}`
	for _, call := range [][2]string{{"", tagsHeader}, {field(responsesPath, tagsField), ""}} {
		queued := b.post(t, responsesPath, fmt.Sprintf(body, call[0]), "X-Switchyard-Tags", call[1], "X-User-Id", "ann", "X-Key-Id", "k1").gives(t, http.StatusOK)
		id, _ := queued["id"].(string)
		b.ended(t, id)
	}
	if n := b.rows(t, tagged); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

func TestTagsOfABatch(t *testing.T) {
	b := setupWith(t, batchPolicy)
	lines := chatLine("a", `"model":"first/ok",`) + chatLine("b", `"model":"first/ok",`)
	b.submit(t, lines, "", "X-Switchyard-Tags", "Team=x").contains(t, http.StatusBadRequest, "X-Switchyard-Tags: a name must")
	made := b.submit(t, lines, "", "X-Switchyard-Tags", tagsHeader, "X-User-Id", "ann", "X-Key-Id", "k1").gives(t, http.StatusOK)
	id, _ := made["id"].(string)
	b.runsBatches(t, "completed")
	b.reaches(t, "/v1/batches/"+id, "status", "completed")
	if n := b.rows(t, tagged); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

func TestTagsInTheFeed(t *testing.T) {
	b := setup(t)
	b.chat(t, sandboxChat, "X-User-Id", "ann", "X-Switchyard-Tags", tagsHeader).gives(t, http.StatusOK)
	b.chat(t, sandboxChat).gives(t, http.StatusOK)
	records := b.settled(t, 2).Records
	want := map[string]any{"team": "web ü", "feature": "search"}
	if diff := cmp.Diff(want, records[0]["tags"]); diff != "" || records[0]["user_id"] != "ann" {
		t.Errorf("the user is %v, and tags -want +got:\n%s", records[0]["user_id"], diff)
	}
	if records[1]["user_id"] != nil || len(records[1]["tags"].(map[string]any)) != 0 {
		t.Errorf("a call without user and tags: %v, %v", records[1]["user_id"], records[1]["tags"])
	}
}
