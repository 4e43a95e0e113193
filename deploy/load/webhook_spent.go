package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// spending is what has been used so far. Load generator and receiver are listed too: on one machine they take CPU
// time from the service.
type spending struct {
	service, edge, postgres, receiver, generator time.Duration
	wal                                          int64
}

func (r *webhookRig) spent(ctx context.Context) spending {
	s := spending{
		service: used([]int{r.service}), edge: used([]int{r.edge}), postgres: used(r.postgres()),
		receiver: used([]int{r.receiver.PID()}), generator: used([]int{os.Getpid()}),
	}
	_ = r.db.QueryRow(ctx, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").Scan(&s.wal) // 0 shows a failure
	return s
}

func (s spending) since(before spending) spending {
	return spending{
		s.service - before.service, s.edge - before.edge, s.postgres - before.postgres, s.receiver - before.receiver, s.generator - before.generator,
		s.wal - before.wal,
	}
}

// costHead holds the columns of each.
const costHead = "CPU-s/10k service\tedge\tPostgres\treceiver\tgenerator\tWAL bytes each\t"

// each returns the cost of one of n deliveries.
func (s spending) each(n int) string {
	per := func(d time.Duration) float64 { return d.Seconds() / float64(n) * 10_000 }
	return fmt.Sprintf("%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%d\t", per(s.service), per(s.edge), per(s.postgres), per(s.receiver), per(s.generator), s.wal/int64(n))
}
