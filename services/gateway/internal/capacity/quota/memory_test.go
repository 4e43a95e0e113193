package quota_test

import (
	"testing"

	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/capacity/quota/quotatest"
)

func TestMemory(t *testing.T) {
	quotatest.Run(t, func(*testing.T) (quota.Store, func()) {
		m := &quota.Memory{}
		return m, m.Lose
	})
}
