package trace

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

func TestRecords(t *testing.T) {
	r := newRecorder(t, &fakeStore{})
	a := recordOf("id\x00", `{}`)
	a.Err, a.Status, a.Report = apierr.NotFound("model"), StatusFailed, nil
	a.Request.ReplayOf = "before"
	e := r.makeRecord(t.Context(), a)
	wantRecord := Record{RequestID: "id\uFFFD", Error: "not_found", HTTPStatus: 404, ParentKind: ParentReplay, Operation: "chat"}
	got := Record{
		RequestID: e.RequestID, Error: e.Error, HTTPStatus: e.HTTPStatus, ParentKind: e.ParentKind, Operation: e.Operation, Billed: e.Billed,
	}
	if diff := cmp.Diff(wantRecord, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	cut := recordOf("cut", `{"m":"`+strings.Repeat("long ", 4000)+`"}`)
	cut.Answer.Cut = true
	e = r.makeRecord(t.Context(), cut)
	if !e.Content.Truncated || e.Content.Replayable {
		t.Errorf("truncated %t, replayable %t, want a truncated content", e.Content.Truncated, e.Content.Replayable)
	}
	if e.ResponseDigest != nil {
		t.Errorf("digest %x of a response that was cut", e.ResponseDigest)
	}
	if e.RequestBytes < 20000 {
		t.Errorf("%d bytes of the request, want all of them", e.RequestBytes)
	}
	none := recordOf("none", `{}`)
	none.Keep = 0
	if e = r.makeRecord(t.Context(), none); e.Content != nil || len(e.RequestDigest) != 32 {
		t.Errorf("%+v", e)
	}
}

func TestKeys(t *testing.T) {
	path := testkit.File(t, long("a"))
	keys, err := NewKeys(secret.File(path))
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.New()
	packet := &Packet{Form: "chat", Request: []byte("{ \"a\" : 1 }\n"), Response: []byte(`"<&>"`), Metadata: map[string]string{"a": "b"}}
	first, content, err := keys.seal(new(scratch), "acme", id, packet)
	if err != nil {
		t.Fatal(err)
	}
	got, err := keys.open("acme", id, first, content)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(packet, got); diff != "" {
		t.Errorf("opened (-want +got):\n%s", diff)
	}
	if _, err := keys.open("bolt", id, first, content); err == nil {
		t.Error("it opens for another organization")
	}
	if _, err := keys.open("acme", uuid.New(), first, content); err == nil {
		t.Error("it opens as another record")
	}
	// Another key seals from now on, the old one still opens; taken away it doesn't.
	testkit.WriteFile(t, path, long("b")+"\n"+long("a"))
	if err := keys.read(); err != nil {
		t.Fatal(err)
	}
	after, sealed, err := keys.seal(new(scratch), "acme", id, packet)
	if err != nil || after == first {
		t.Errorf("still sealed with %s: %v", after, err)
	}
	if _, err := keys.open("acme", id, after, sealed); err != nil {
		t.Errorf("what the new key sealed: %v", err)
	}
	if _, err := keys.open("acme", id, first, content); err != nil {
		t.Error(err)
	}
	testkit.WriteFile(t, path, long("c"))
	if err := keys.read(); err != nil {
		t.Error(err)
	}
	if _, err := keys.open("acme", id, first, content); !errors.Is(err, errKey) {
		t.Errorf("%v", err)
	}
	if _, err := NewKeys(secret.File(testkit.File(t, "short"))); err == nil || strings.Contains(err.Error(), "short") {
		t.Errorf("%v", err)
	}
}

func TestShorten(t *testing.T) {
	for _, text := range []string{
		`{"a":"` + strings.Repeat("é", 9000) + `","b":[1,2]}`, `["` + strings.Repeat(`\n`, 9000) + `"]`,
		"[" + strings.Repeat(`"word",`, 5000) + "1]", `"` + strings.Repeat("x", 1<<20) + `"`,
	} {
		short, cut := shorten(json.RawMessage(text), 2048)
		if !cut || len(short) > 2048 {
			t.Errorf("cut %t to %d bytes, want at most 2048", cut, len(short))
		}
		if short != nil && !json.Valid(short) {
			t.Errorf("not JSON: %s", short)
		}
	}
	if short, cut := shorten(json.RawMessage(`{"a":1}`), 2048); cut || string(short) != `{"a":1}` {
		t.Errorf("%s %v", short, cut)
	}
}
