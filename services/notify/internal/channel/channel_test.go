package channel_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

func TestInAppDraft(t *testing.T) {
	m := channel.Message{
		Organization: "acme", Subject: "Order", Text: "Shipped",
		Target: channel.Target{User: "ann", URL: "/orders/7?a=b#c", Data: []byte(" {\"a\":1}")},
	}
	work, err := channel.InAppSender{}.Prepare(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	want := channel.Work{Channel: channel.InApp, Record: inbox.Draft{
		Inbox:   inbox.Address{Organization: "acme", User: "ann"},
		Subject: "Order", Message: "Shipped", URL: "/orders/7?a=b#c", Data: []byte(" {\"a\":1}"),
	}}
	if diff := cmp.Diff(want, work); diff != "" {
		t.Errorf("work (-want +got):\n%s", diff)
	}
}

func TestInAppTarget(t *testing.T) {
	tests := map[string]struct {
		target channel.Target
		field  string // refused, or "" for accepted
	}{
		"nothing":             {channel.Target{}, ""},
		"https":               {channel.Target{URL: "https://shop.example/7?a=b#c"}, ""},
		"http with a port":    {channel.Target{URL: "http://localhost:8080"}, ""},
		"path":                {channel.Target{URL: "/orders/7"}, ""},
		"script":              {channel.Target{URL: "javascript:alert(1)"}, "target.url"},
		"script, spelt oddly": {channel.Target{URL: "JaVaScRiPt:alert(1)"}, "target.url"},
		"script, with a tab":  {channel.Target{URL: "java\tscript:alert(1)"}, "target.url"},
		"script after space":  {channel.Target{URL: " javascript:alert(1)"}, "target.url"},
		"data":                {channel.Target{URL: "data:text/html,x"}, "target.url"},
		"another site":        {channel.Target{URL: "//evil.example/x"}, "target.url"},
		"backslashes":         {channel.Target{URL: `/\evil.example`}, "target.url"},
		"no host":             {channel.Target{URL: "https:///x"}, "target.url"},
		"only a port":         {channel.Target{URL: "https://:80/x"}, "target.url"},
		"user in the URL":     {channel.Target{URL: "https://shop.example@evil.example"}, "target.url"},
		"relative":            {channel.Target{URL: "orders/7"}, "target.url"},
		"NUL":                 {channel.Target{URL: "/a\x00"}, "target.url"},
		"not a URL":           {channel.Target{URL: "https://[::1"}, "target.url"},
		"object":              {channel.Target{Data: []byte("\n{}")}, ""},
		"largest object":      {channel.Target{Data: object(16 << 10)}, ""},
		"too large":           {channel.Target{Data: object(16<<10 + 1)}, "target.data"},
		"array":               {channel.Target{Data: []byte("[{}]")}, "target.data"},
		"null":                {channel.Target{Data: []byte("null")}, "target.data"},
		"blank":               {channel.Target{Data: []byte(" ")}, "target.data"},
		"broken":              {channel.Target{Data: []byte("{")}, "target.data"},
		"two":                 {channel.Target{Data: []byte("{}{}")}, "target.data"},
		"not UTF-8":           {channel.Target{Data: []byte("{\"a\":\"\xff\"}")}, "target.data"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := channel.InAppSender{}.Prepare(t.Context(), channel.Message{Target: tt.target})
			if tt.field == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			e, ok := errors.AsType[*apierr.Error](err)
			if !ok || e.Reason != channel.ReasonNotAccepted || !strings.HasPrefix(e.Text, "channel in_app: "+tt.field+": ") {
				t.Errorf("error = %v, want a refusal of %s", err, tt.field)
			}
		})
	}
}

// Free JSON comes over gRPC as bytes that nothing has looked into.
func TestFreeJSONIsBounded(t *testing.T) {
	webhook := channel.NewDirectWebhook(channel.DirectOptions{Checker: checker(t), Secrets: secrets(t, "acme", "s")})
	for _, tt := range []struct {
		sender channel.Sender
		field  string
		target func(text []byte) channel.Target
	}{
		{channel.InAppSender{}, "target.data", func(text []byte) channel.Target { return channel.Target{Data: text} }},
		{webhook, "target.data", func(text []byte) channel.Target { return channel.Target{URL: "https://example.com", Data: text} }},
		{webhook, "target.payload", func(text []byte) channel.Target { return channel.Target{URL: "https://example.com", Payload: text} }},
	} {
		for levels, want := range map[int]string{jsoncheck.MaxDepth: "", jsoncheck.MaxDepth + 1: tt.field + ": " + jsoncheck.RuleDepth} {
			_, err := tt.sender.Prepare(t.Context(), channel.Message{Organization: "acme", Target: tt.target(nested(levels))})
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s of %s, %d levels: error %v, want %q", tt.field, tt.sender.Channel(), levels, err, want)
			}
		}
	}
}

// nested is an object of so many levels.
func nested(levels int) []byte {
	return []byte(strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels))
}

func object(size int) []byte {
	return []byte(`{"a":"` + strings.Repeat("x", size-8) + `"}`)
}

func TestRegistryRefusesTheWhole(t *testing.T) {
	all := []channel.Name{channel.Slack, channel.Email, channel.Webhook, channel.WebPush}
	for _, webPush := range []bool{false, true} {
		registry := channel.NewRegistry(webPush, channel.InAppSender{})
		for _, name := range all {
			works, err := registry.Prepare(t.Context(), []channel.Name{channel.InApp, name}, channel.Message{})
			want := channel.ReasonNotConfigured
			if name == channel.WebPush && !webPush {
				want = channel.ReasonWebPushDisabled
			}
			e, ok := errors.AsType[*apierr.Error](err)
			if !ok {
				t.Fatalf("web push %t, %s: error %v", webPush, name, err)
			}
			if e.Kind != apierr.KindInvalid || e.Reason != want {
				t.Errorf("web push %t, %s: %v %s, want invalid %s", webPush, name, e.Kind, e.Reason, want)
			}
			if prefix := "channel " + string(name) + ": " + string(want); !strings.HasPrefix(e.Text, prefix) {
				t.Errorf("web push %t, %s: text %q, want one that begins with %s", webPush, name, e.Text, prefix)
			}
			if works != nil {
				t.Errorf("web push %t, %s: work %v, want none", webPush, name, works)
			}
		}
		works, err := registry.Prepare(t.Context(), []channel.Name{channel.InApp}, channel.Message{})
		if err != nil || len(works) != 1 {
			t.Errorf("in_app: %v, %v", works, err)
		}
	}
}

// Whatever link is taken can't run script: a browser drops control characters
// and leading spaces before it reads the scheme.
func FuzzLink(f *testing.F) {
	for _, seed := range []string{"/a", "https://a.example/b", "javascript:x", "//a", "\x01javascript:x", "java\nscript:x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, link string) {
		if _, err := (channel.InAppSender{}).Prepare(t.Context(), channel.Message{Target: channel.Target{URL: link}}); err != nil || link == "" {
			return
		}
		lower := strings.ToLower(link)
		path := strings.HasPrefix(link, "/") && !strings.HasPrefix(link, "//") && !strings.HasPrefix(link, `/\`)
		if !path && !strings.HasPrefix(lower, "http://") && !strings.HasPrefix(lower, "https://") {
			t.Errorf("accepted %q", link)
		}
	})
}
