package postgres_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch/queuetest"
	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/notify/migrations"
	"switchyard.dev/services/platform/testkit"
)

func TestQueueConforms(t *testing.T) {
	queuetest.Conform(t, func(t *testing.T) queuetest.Queue {
		t.Helper()
		pool := testkit.Postgres(t, migrations.FS)
		return queuetest.Queue{
			Store: postgres.NewQueue(pool),
			Add: func(t *testing.T, name channel.Name, lane string) uuid.UUID {
				t.Helper()
				a := send.Accepted{
					ID: uuid.Must(uuid.NewV7()), Lifetime: time.Hour,
					Request: send.Request{Message: channel.Message{Organization: "acme"}, Channels: []channel.Name{name}},
					Works:   []channel.Work{{Channel: name, Body: []byte("work"), Destination: "test://host", Lane: lane}},
				}
				if _, err := postgres.NewOutbox(pool).Accept(t.Context(), a); err != nil {
					t.Fatal(err)
				}
				return a.ID
			},
			Update: func(t *testing.T, of uuid.UUID) uuid.UUID {
				t.Helper()
				return update(t, pool, of, channel.Work{Channel: channel.Email, Body: []byte("work"), Destination: "test://host"})
			},
			Pass: func(t *testing.T, d time.Duration) {
				t.Helper()
				testkit.Exec(t, pool, "UPDATE recipient SET due_at = due_at - interval '1 second' * "+strconv.Itoa(int(d.Seconds())))
			},
		}
	})
}
