package channel_test

import (
	"testing"

	"switchyard.dev/services/notify/internal/channel"
)

// Work that can't be read is never sent, so no circuit counts it, on any channel.
func TestUnreadableWorkIsUntested(t *testing.T) {
	email, err := channel.NewEmail(channel.EmailOptions{From: "app@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	for name, transport := range map[string]channel.Transport{
		"email": email, "slack": channel.NewSlack(channel.SlackOptions{}), "webhook": channel.NewDirectWebhook(channel.DirectOptions{}),
		"webhook through egress": channel.NewEgressWebhook(nil, nil, "", nil),
	} {
		want := channel.Unsent(channel.Failed(channel.ClassUnreadable, 0, ""))
		if got := transport.Deliver(t.Context(), channel.Task{Work: []byte("{")}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
