package redis

import (
	"testing"

	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/capacity/quota/quotatest"
	"switchyard.dev/services/platform/testkit"
)

func TestQuotas(t *testing.T) {
	quotatest.Run(t, func(t *testing.T) (quota.Store, func()) {
		t.Helper()
		client := testkit.Redis(t)
		return NewQuotas(client), func() {
			t.Helper()
			keys := client.Keys(t.Context(), client.Prefix+":*").Val()
			if err := client.Del(t.Context(), keys...).Err(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
