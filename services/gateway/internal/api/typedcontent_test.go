package api_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/platform/apierr"
)

func textTurn(role, text string) *gatewayv1.ChatMessage {
	return &gatewayv1.ChatMessage{Role: role, TypedContent: &gatewayv1.ChatMessage_Text{Text: text}}
}

func partsTurn(role string, parts ...*gatewayv1.ContentPart) *gatewayv1.ChatMessage {
	return &gatewayv1.ChatMessage{Role: role, TypedContent: &gatewayv1.ChatMessage_Parts{Parts: &gatewayv1.ContentParts{Parts: parts}}}
}

func textPart(text string) *gatewayv1.ContentPart {
	return &gatewayv1.ContentPart{Part: &gatewayv1.ContentPart_Text{Text: text}}
}

func imagePart(url, detail string) *gatewayv1.ContentPart {
	return &gatewayv1.ContentPart{Part: &gatewayv1.ContentPart_ImageUrl{ImageUrl: &gatewayv1.ImageUrl{Url: url, Detail: detail}}}
}

// typed sets the content of a message in types, from its JSON.
func typed(t *testing.T, m *gatewayv1.ChatMessage) {
	t.Helper()
	var text string
	if json.Unmarshal(m.GetContent(), &text) == nil {
		m.TypedContent, m.Content = &gatewayv1.ChatMessage_Text{Text: text}, nil
		return
	}
	var parts []struct {
		Text     string `json:"text"`
		ImageURL *struct {
			URL    string `json:"url"`
			Detail string `json:"detail"`
		} `json:"image_url"`
	}
	if err := json.Unmarshal(m.GetContent(), &parts); err != nil {
		t.Fatal(err)
	}
	list := new(gatewayv1.ContentParts)
	for _, p := range parts {
		if p.ImageURL != nil {
			list.Parts = append(list.GetParts(), imagePart(p.ImageURL.URL, p.ImageURL.Detail))
		} else {
			list.Parts = append(list.GetParts(), textPart(p.Text))
		}
	}
	m.TypedContent, m.Content = &gatewayv1.ChatMessage_Parts{Parts: list}, nil
}

// Typed content and the same in JSON reach the vendor as the same bytes and get the same answer, whole and streamed.
func TestTypedContentIsThatOfJSON(t *testing.T) {
	b := setup(t)
	client, md := b.client()
	ctx := metadata.NewOutgoingContext(t.Context(), md)
	cases := append(requests(),
		asked{name: "escapes", grpc: &gatewayv1.LlmRequest{Model: "first/ok", Messages: user("a\"b\\c\n\t<&>é\u2028😀")}},
		asked{name: "empty text", grpc: &gatewayv1.LlmRequest{Model: "first/ok", Messages: user("")}},
	)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			want, err := client.Chat(ctx, c.grpc)
			if err != nil {
				t.Fatal(err)
			}
			sent := b.vendor.last()
			inTypes := proto.CloneOf(c.grpc)
			for _, m := range inTypes.GetMessages() {
				if len(m.GetContent()) > 0 {
					typed(t, m)
				}
			}
			got, err := client.Chat(ctx, inTypes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sent, b.vendor.last()); diff != "" || sent == "" {
				t.Errorf("sent to the vendor (-JSON +types):\n%s", diff)
			}
			if diff := cmp.Diff(message(t, want), message(t, got)); diff != "" {
				t.Errorf("answer (-JSON +types):\n%s", diff)
			}
			wantText, gotText := chunksOf(t, b, c.grpc), chunksOf(t, b, inTypes)
			if gotText != wantText || len(wantText) == 0 {
				t.Errorf("streamed %q, want %q", gotText, wantText)
			}
		})
	}
}

// chunksOf returns the chunks of a chat's stream as text, and what the vendor got.
func chunksOf(t *testing.T, b *bench, m *gatewayv1.LlmRequest) string {
	t.Helper()
	client, md := b.client()
	stream, err := client.ChatStream(metadata.NewOutgoingContext(t.Context(), md), m)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all.String() + b.vendor.last()
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(message(t, chunk))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
}

func TestTypedContentIsChecked(t *testing.T) {
	b := setup(t)
	client, md := b.client()
	ctx := metadata.NewOutgoingContext(t.Context(), md)
	both := textTurn("user", "hi")
	both.Content = []byte(`"hi"`)
	for _, c := range []struct {
		name, want string
		message    *gatewayv1.ChatMessage
	}{
		{"both", "messages[0].content: must not be set together with text or parts", both},
		{"no part", "messages[0].parts.parts: is required", partsTurn("user")},
		{"an empty part", "messages[0].parts.parts[1].part: is required", partsTurn("user", textPart("a"), new(gatewayv1.ContentPart))},
		{"no URL", "messages[0].parts.parts[0].image_url.url: is required", partsTurn("user", imagePart("", ""))},
		{"plain http", "messages[0].content[0].image_url.url: must be an https URL or a data: URI of an image", partsTurn("user", imagePart("http://x.example/a.png", ""))},
		{"detail", "messages[0].parts.parts[0].image_url.detail: value must be in list", partsTurn("user", imagePart("https://x.example/a.png", "most"))},
		{"role", "messages[0].content[0]: images are for user messages only", partsTurn("system", imagePart("https://x.example/a.png", ""))},
		{"zero byte", "messages[0].text: must not hold a zero byte", textTurn("user", "a\x00b")},
		{"neither", "messages[0].content: is required", &gatewayv1.ChatMessage{Role: "user"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := client.Chat(ctx, &gatewayv1.LlmRequest{Model: "first/ok", Messages: []*gatewayv1.ChatMessage{c.message}})
			if e := apierr.From(err); e == nil || e.Kind.HTTPStatus() != 400 || !strings.HasPrefix(e.Text, c.want) {
				t.Errorf("got %v, want 400 %s", err, c.want)
			}
		})
	}
}

// A conversation that describes an image may have its texts in types, too.
func TestTypedContentDescribesImages(t *testing.T) {
	b := setup(t)
	client, md := b.client()
	made, err := client.GenerateImages(metadata.NewOutgoingContext(t.Context(), md), &gatewayv1.ImagesRequest{
		Messages: []*gatewayv1.ChatMessage{textTurn("system", "In oil."), partsTurn("user", textPart("A switchyard"))},
	})
	if err != nil || len(made.GetData()) != 1 {
		t.Fatalf("made %v, %v", made, err)
	}
}

// The JSON face has one form of content: the names of the typed one are as unknown as any other.
func TestTypedContentIsNotInJSON(t *testing.T) {
	b := setup(t)
	for member, want := range map[string]string{
		`"text":"hi"`:                              "messages[0].text: unknown field",
		`"content":"hi","text":null`:               "messages[0].text: unknown field",
		`"parts":{"parts":[{"text":"hi"}]}`:        "messages[0].parts: unknown field",
		`"content":"hi","\u0070arts":{}`:           "messages[0].parts: unknown field",
		`"content":"hi","typed_content":{}`:        "messages[0].typed_content: unknown field",
		`"content":[{"image_url":{"url":"x"}}]`:    "messages[0].content[0].type: must be text or image_url",
		`"content":"hi","typedContent":{"text":1}`: "messages[0].typedContent: unknown field",
	} {
		a := b.chat(t, `{"model":"first/ok","messages":[{"role":"user",`+member+`}]}`)
		if a.status != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want 400 %s", member, a.status, a.body, want)
		}
	}
}
