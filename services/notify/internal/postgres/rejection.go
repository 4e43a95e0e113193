package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/notify/internal/postgres/dbsql"
	"switchyard.dev/services/notify/internal/push"
)

var _ push.RejectionStore = (*Rejections)(nil)

// Rejections records events of VAPID keys that push services refuse.
type Rejections struct{ pool *pgxpool.Pool }

// NewRejections returns the Rejections of a pool's database.
func NewRejections(pool *pgxpool.Pool) *Rejections { return &Rejections{pool} }

// Reject implements push.RejectionStore.
func (r *Rejections) Reject(ctx context.Context, rejected []push.Rejection) error {
	var p dbsql.AddRejectedKeysParams
	for _, key := range rejected {
		p.PushServices, p.KeyIds = append(p.PushServices, key.Service), append(p.KeyIds, key.KeyID)
		p.Statuses = append(p.Statuses, int32(key.Status))
	}
	return failure("add rejected keys", dbsql.New(r.pool).AddRejectedKeys(ctx, p))
}
