package smtp

import (
	"net/textproto"
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestReplyGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(append(growth.Text, growth.Around("5.1.", growth.Text, "")...), func(text string) {
		_ = replyOf(StageSent, &textproto.Error{Code: 550, Msg: text})
		_ = parseExtensions("hi\n" + text)
	})...)
}
