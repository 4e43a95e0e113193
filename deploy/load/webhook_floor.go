package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// bareClient measures how many posts a second a Go program makes that does nothing else: no signature, no record, no
// retry.
func bareClient(ctx context.Context, url string, d time.Duration) (float64, error) {
	const connections = 64
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	var done atomic.Int64
	started := time.Now()
	var group errgroup.Group
	for range connections {
		group.Go(func() error {
			for time.Since(started) < d && ctx.Err() == nil {
				if err := post(ctx, client, url); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	return float64(done.Load()) / time.Since(started).Seconds(), err
}

func post(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(payload))
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// batchedInserts measures how many rows of the same bytes a second one connection commits, a hundred at a time.
func batchedInserts(ctx context.Context, db *pgx.Conn, d time.Duration) (float64, error) {
	const batch = 100
	if _, err := db.Exec(ctx, "CREATE TABLE IF NOT EXISTS load_floor (id uuid PRIMARY KEY, body bytea NOT NULL)"); err != nil {
		return 0, err
	}
	bodies := make([][]byte, batch)
	for i := range bodies {
		bodies[i] = []byte(payload)
	}
	rows, started := 0, time.Now()
	for time.Since(started) < d && ctx.Err() == nil {
		if _, err := db.Exec(ctx, "INSERT INTO load_floor SELECT gen_random_uuid(), b FROM unnest($1::bytea[]) b", bodies); err != nil {
			return 0, err
		}
		rows += batch
	}
	rate := float64(rows) / time.Since(started).Seconds()
	_, err := db.Exec(ctx, "DROP TABLE load_floor")
	return rate, err
}
