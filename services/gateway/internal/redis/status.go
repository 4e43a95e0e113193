package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/operations/status"
	"switchyard.dev/services/platform/redisdb"
)

// Reports implements status.ReportStore: the last report of each replica, for as long as it is to be kept.
type Reports struct{ client *redisdb.Client }

// NewReports returns the reports of all replicas.
func NewReports(client *redisdb.Client) *Reports { return &Reports{client} }

// Exchange implements status.ReportStore in one round trip, by the server's clock.
func (r *Reports) Exchange(ctx context.Context, own status.Report, kept time.Duration) ([]status.Report, error) {
	text, err := json.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	reply, err := exchange.Run(ctx, r.client, r.keys(), own.Replica, kept.Milliseconds(), "", text).Slice()
	if err != nil {
		return nil, fmt.Errorf("exchange replica reports: %w", err)
	}
	var reports []status.Report
	for pair := range pairs(reply) {
		entry, ok := pair[1].(string)
		if !ok {
			return nil, errMalformed
		}
		age, text, _ := strings.Cut(entry, "\n")
		milliseconds, err := strconv.ParseInt(age, 10, 64)
		var report status.Report
		if err != nil || json.Unmarshal([]byte(text), &report) != nil {
			continue // Another version's.
		}
		report.Age = time.Duration(milliseconds) * time.Millisecond
		reports = append(reports, report)
	}
	return reports, nil
}

// Delete implements status.ReportStore.
func (r *Reports) Delete(ctx context.Context, replica string) error {
	keys := r.keys()
	pipe := r.client.TxPipeline()
	pipe.ZRem(ctx, keys[0], replica)
	pipe.HDel(ctx, keys[1], replica)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("remove the report: %w", err)
	}
	return nil
}

func (r *Reports) keys() []string {
	return []string{r.client.Key("status", "replicas"), r.client.Key("status", "reports")}
}
