package trace

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/klauspost/compress/s2"

	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

func TestPacket(t *testing.T) {
	chance := make([]byte, 5000)
	_, _ = rand.Read(chance)
	room := new(scratch) // One for all: no packet may show in another.
	for name, p := range map[string]*Packet{
		"nothing": {Form: "chat"},
		"short":   {Form: "chat", Request: []byte(`{ "a" : 1 }`), Response: []byte(`"<&>"`), Metadata: map[string]string{"a": "b"}},
		"words":   {Form: "chat", Request: []byte(`"` + strings.Repeat("the train to the coast ", 500) + `"`), Response: []byte(`{"a":"é"}`)},
		"chance":  {Form: "chat", Request: chance},
	} {
		text, err := p.encode(room, 12, 16)
		if err != nil || cap(text) < len(text)+16 {
			t.Fatalf("%s: %v, no room behind", name, err)
		}
		got, err := decode(text[12:])
		if diff := cmp.Diff(p, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
		if whole := len(p.Request) + len(p.Response); name == "words" && len(text) > whole/4 || len(text) > 12+whole+100 {
			t.Errorf("%s: %d bytes of %d", name, len(text)-12, whole)
		}
	}
}

// Packets that were written before packets were packed can still be read.
func TestPlainPacket(t *testing.T) {
	var text []byte
	for _, part := range []string{`{"form":"chat"}`, `{"a":1}`, ""} {
		text = append(binary.BigEndian.AppendUint32(text, uint32(len(part))), part...)
	}
	p, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Packet{Form: "chat", Request: json.RawMessage(`{"a":1}`)}, p); diff != "" {
		t.Errorf("packet (-want +got):\n%s", diff)
	}
}

func TestPacketTooLarge(t *testing.T) {
	block := s2.Encode(nil, bytes.Repeat([]byte{0}, maxPacket+1))
	if p, err := decode(append([]byte{packed}, block...)); err == nil {
		t.Errorf("%+v", p.Form)
	}
}

// pageStore is a store in memory of one page.
type pageStore struct {
	Store

	records []Record
}

func (s *pageStore) List(context.Context, Filter, time.Time) ([]Record, error) { return s.records, nil }

func (s *pageStore) Sealed(_ context.Context, records []Record) (map[uuid.UUID][]byte, error) {
	sealed := make(map[uuid.UUID][]byte)
	for i := range records {
		sealed[records[i].ID] = records[i].Content.Sealed
	}
	return sealed, nil
}

// Contents that are small only while they are packed do not make a page exceed maxPage.
func TestPageOfPackedContents(t *testing.T) {
	keys, err := NewKeys(secret.File(testkit.File(t, long("a"))))
	if err != nil {
		t.Fatal(err)
	}
	s := &pageStore{}
	request := []byte(`"` + strings.Repeat("so ", maxPage/8) + `"`)
	for i := range 5 {
		r := Record{ID: uuid.New(), RequestID: fmt.Sprint(i), Organization: "acme"}
		name, sealed, err := keys.seal(new(scratch), r.Organization, r.ID, &Packet{Form: "chat", Request: request})
		if err != nil {
			t.Fatal(err)
		}
		r.Content = &Content{Key: name, Sealed: sealed, Size: len(sealed)}
		s.records = append(s.records, r)
	}
	none := redact.New(nil)
	page, more, err := NewArchive(s, keys, func() *redact.Redactor { return none }, testkit.Logger(t)).List(t.Context(), Filter{Limit: 5})
	if err != nil || len(page) != 2 || !more {
		t.Fatalf("%d records, more %t, %v; want 2 of 5", len(page), more, err)
	}
	if n := len(page[1].Request); n != len(request) {
		t.Errorf("a request of %d bytes, want %d", n, len(request))
	}
}

func FuzzDecode(f *testing.F) {
	for _, words := range []string{"{}", `"` + strings.Repeat("word ", 100) + `"`} {
		good, _ := (&Packet{Form: "chat", Request: []byte(words)}).encode(new(scratch), 0, 0)
		f.Add(good)
	}
	f.Add([]byte{0, 0, 0, 200, 1})
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := decode(text); err == nil {
			again, err := p.encode(new(scratch), 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			if twice, err := decode(again); err != nil || !bytes.Equal(twice.Request, p.Request) || !bytes.Equal(twice.Response, p.Response) {
				t.Fatal(err)
			}
		}
	})
}

// BenchmarkEncode encodes a packet of 1.5 kB.
func BenchmarkEncode(b *testing.B) {
	p := &Packet{Form: "chat", Request: []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat("How long is the train to the coast? ", 30) + `"}]}`), Response: bytes.Repeat([]byte("carriage "), 50)}
	room := new(scratch)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.encode(room, 12, 16); err != nil {
			b.Fatal(err)
		}
	}
}
