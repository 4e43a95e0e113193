// Package dialecttest checks the properties that every dialect of the compatible faces must have. Their tests call it.
package dialecttest

import (
	"testing"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

// FuzzChat parses any body. It is refused as the caller's error, or returns a chat whose body for a provider is JSON,
// also with an instruction. The caller's own bytes are never changed.
func FuzzChat(f *testing.F, d dialect.Dialect, seeds ...string) {
	f.Helper()
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := string(body)
		chat, err := d.Chat(body, nil)
		if string(body) != before {
			t.Error("the body was changed")
		}
		if err != nil {
			if e := apierr.From(err); e.Kind != apierr.KindInvalid && e.Kind != apierr.KindNotFound {
				t.Errorf("%v", err)
			}
			return
		}
		if !jsoncheck.Valid(chat.Chat.Native.Body) || len(chat.Chat.Messages) == 0 && chat.Only == "" {
			t.Errorf("%q became %q", before, chat.Chat.Native.Body)
		}
		if local, err := chat.Localize(chat.Chat.Native.Body, "i"); err != nil || !jsoncheck.Valid(local) {
			t.Errorf("localized %q, %v", local, err)
		}
	})
}
