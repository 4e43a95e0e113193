package mcp

import (
	"context"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/mcp/toolcall"
)

// Resources whose servers acknowledge them are followed for as long as the stream lasts.
func TestFollows(t *testing.T) {
	server, s, h := open(t)
	n := newNotices()
	h.Notices = n
	said, left := make(chan struct{}), make(chan struct{})
	s.follows = []toolcall.Followed{
		{Run: func(ctx context.Context, begun func([]string), updated func(string)) {
			begun([]string{"a:b"})
			updated("a:b/part")
			updated("c:d") // Another server's.
			close(said)
			<-ctx.Done()
			close(left)
		}},
		{Run: func(_ context.Context, begun func([]string), _ func(string)) { begun(nil) }},
	}
	go func() {
		<-n.asked
		<-said
		close(n.goOn)
	}()
	body := strings.Replace(listenTo, `["a:b"]`, `["a:b","a:b","x:y"]`, 1)
	status, answer, _ := post(t, server.URL+"/mcp", body, modern("subscriptions/listen")...)
	var got []gjson.Result
	for line := range strings.Lines(answer) {
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			got = append(got, gjson.Parse(text))
		}
	}
	if status != 200 || len(got) != 4 || got[0].Get("params.notifications.resourceSubscriptions").Raw != `["a:b"]` ||
		got[1].Get("method").Str != "notifications/resources/updated" || got[1].Get("params.uri").Str != "a:b/part" ||
		got[1].Get(`params._meta.io\.modelcontextprotocol/subscriptionId`).Str != "l1" || !got[3].Get("result").Exists() {
		t.Fatalf("%d %s", status, answer)
	}
	<-left
	if strings.Join(s.asked, " ") != "a:b x:y" {
		t.Errorf("asked for %v", s.asked)
	}
}
