package queuetest_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch/queuetest"
)

func TestMemoryConforms(t *testing.T) {
	queuetest.Conform(t, func(*testing.T) queuetest.Queue {
		m := &queuetest.Memory{}
		return queuetest.Queue{
			Store: m,
			Add: func(_ *testing.T, name channel.Name, lane string) uuid.UUID {
				return m.Add(name, lane, time.Hour)
			},
			Update: func(_ *testing.T, of uuid.UUID) uuid.UUID { return m.Update(of) },
			Pass:   func(_ *testing.T, d time.Duration) { m.Pass(d) },
		}
	})
}
