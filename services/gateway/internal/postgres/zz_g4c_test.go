package postgres

import (
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/exposure"
)

func TestZZ(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://postgres@127.0.0.1:55432/g4c_bench")
	if err != nil {
		t.Fatal(err)
	}
	store := NewExposure(pool)
	start, rows := time.Now(), 0
	if os.Getenv("FOLD") != "" {
		pool.Exec(t.Context(), "TRUNCATE credential_use, credential_use_run; UPDATE credential_use_mark SET txid='0', seq=0")
		for {
			n, err := store.Fold(t.Context(), 50000)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				break
			}
			rows += n
		}
		t.Logf("folded %d in %s", rows, time.Since(start))
		pool.Exec(t.Context(), "VACUUM ANALYZE credential_use")
		pool.Exec(t.Context(), "VACUUM ANALYZE credential_use_run")
	}
	begin := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	var fingerprint string
	pool.QueryRow(t.Context(), "SELECT substr(md5('provider-1' || -1), 1, 16)").Scan(&fingerprint)
	odd := 17*time.Minute + 13*time.Second
	for name, q := range map[string]exposure.Query{
		"provider/all":         {},
		"provider/30d":         {Since: begin.Add(40*24*time.Hour + odd), Until: begin.Add(70*24*time.Hour + odd)},
		"provider/1d":          {Since: begin.Add(40*24*time.Hour + odd), Until: begin.Add(41*24*time.Hour + odd)},
		"credential/all":       {Fingerprint: fingerprint},
		"credential/30d":       {Fingerprint: fingerprint, Since: begin.Add(40*24*time.Hour + odd), Until: begin.Add(70*24*time.Hour + odd)},
		"credential/last-week": {Fingerprint: fingerprint, Since: begin.Add(83*24*time.Hour + odd)},
		"credential/1h":        {Fingerprint: fingerprint, Since: begin.Add(40*24*time.Hour + odd), Until: begin.Add(40*24*time.Hour + odd + time.Hour)},
	} {
		q.Provider, q.Limit = "provider-1", 200
		var r exposure.Radius
		best := time.Hour
		var all time.Duration
		for range 6 {
			s := time.Now()
			if r, err = store.Radius(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			d := time.Since(s)
			best, all = min(best, d), all+d
		}
		t.Logf("%-22s best %s mean %s: %d calls %d runs %d orgs", name, best, all/6, r.Calls, r.RunCount, r.OrganizationCount)
	}
}
