package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/money/spend"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/pgdb"
)

// Spend implements spend.Store.
type Spend struct{ pool *pgxpool.Pool }

// NewSpend returns the sums of spend in a database.
func NewSpend(pool *pgxpool.Pool) *Spend { return &Spend{pool} }

// Aggregate implements spend.Store.
func (s *Spend) Aggregate(ctx context.Context, b spend.Bounds, limit int) (int, error) {
	n, err := s.alone(ctx, func(q *dbsql.Queries, mark dbsql.LockSpendMarkRow) (int64, error) {
		if err := q.DropSums(ctx); err != nil {
			return 0, err
		}
		return q.FoldSpend(ctx, dbsql.FoldSpendParams{
			AfterTxid: mark.Txid, AfterSeq: mark.Seq, Count: int32(limit), HoursSince: b.HoursSince, DaysSince: b.DaysSince,
			HourGroups: int32(b.HourGroups), DayGroups: int32(b.DayGroups), MonthGroups: int32(b.MonthGroups),
		})
	})
	if err != nil {
		return 0, fmt.Errorf("aggregate spend: %w", err)
	}
	return int(n), nil
}

// Lag returns the age of the oldest row of the ledger that isn't aggregated yet; 0 without one.
func (s *Spend) Lag(ctx context.Context) (time.Duration, error) {
	seconds, err := dbsql.New(s.pool).SpendLag(ctx)
	if err != nil {
		return 0, fmt.Errorf("lag of spend: %w", err)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// Expire implements spend.Store.
func (s *Spend) Expire(ctx context.Context, b spend.Bounds, limit int) (int, error) {
	n, err := s.alone(ctx, func(q *dbsql.Queries, _ dbsql.LockSpendMarkRow) (int64, error) {
		return q.ExpireSpend(ctx, dbsql.ExpireSpendParams{HoursSince: b.HoursSince, DaysSince: b.DaysSince, Count: int32(limit)})
	})
	if err != nil {
		return 0, fmt.Errorf("expire spend: %w", err)
	}
	return int(n), nil
}

// alone runs do in a transaction that holds the mark; it returns 0 while another one holds it.
func (s *Spend) alone(ctx context.Context, do func(*dbsql.Queries, dbsql.LockSpendMarkRow) (int64, error)) (n int64, err error) {
	err = pgdb.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		mark, err := q.LockSpendMark(ctx)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := q.PlanForAggregation(ctx); err != nil {
			return err
		}
		n, err = do(q, mark)
		return err
	})
	return n, err
}

// Report implements spend.Store.
func (s *Spend) Report(ctx context.Context, q spend.Query) (spend.Report, error) {
	report, err := s.report(ctx, q)
	if err != nil {
		return spend.Report{}, fmt.Errorf("report spend: %w", err)
	}
	return report, nil
}

func (s *Spend) report(ctx context.Context, q spend.Query) (report spend.Report, err error) {
	if err := awaitEntries(ctx, s.pool); err != nil {
		return report, err
	}
	params, err := spendParams(q)
	if err != nil {
		return report, err
	}
	var rows []dbsql.ListSpendRow
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, s.pool, snapshot, func(tx pgx.Tx) error {
		db := dbsql.New(tx)
		if err := db.PlanForSpend(ctx); err != nil {
			return err
		}
		rows, err = listSpend(ctx, db, params, len(q.Grouping) > 0 || q.WithTags)
		return err
	})
	if err != nil {
		return report, err
	}
	for i := range rows {
		sums, err := spendSums(&rows[i])
		if err != nil {
			return report, err
		}
		if rows[i].IsTotal {
			report.Total = sums
			continue
		}
		report.Rows = append(report.Rows, spend.Row{Start: rows[i].Bucket.UTC(), Values: spendValues(q.Grouping, &rows[i]), Tags: rows[i].AllTags, Sums: sums})
	}
	return report, nil
}

// listSpend returns the rows of a page, whose buckets it reads in parts if they are grouped, and the total as one more row.
func listSpend(ctx context.Context, db *dbsql.Queries, p dbsql.ListSpendParams, grouped bool) (rows []dbsql.ListSpendRow, err error) {
	parts := spendParts{until: p.Until}
	if grouped {
		parts.buckets, err = db.ListSpendBuckets(ctx, dbsql.ListSpendBucketsParams{
			OrganizationID: p.OrganizationID, Span: p.Span, Since: p.PageSince, Until: p.Until,
		})
		if err != nil {
			return nil, err
		}
	}
	var total []dbsql.ListSpendRow
	for p.WithTotal = true; p.WithTotal || p.PageSize > 0 && p.PageSince.Before(p.Until); p.WithTotal = false {
		p.PageUntil = parts.next(p.PageSince, int(p.PageSize))
		part, err := db.ListSpend(ctx, p)
		if err != nil {
			return nil, err
		}
		made := len(part) - 1
		if p.WithTotal {
			total = part[made:]
		}
		rows = append(rows, part[:made]...)
		parts.rows += made
		p.PageSize -= int32(made)
		p.PageSince = p.PageUntil
	}
	return append(rows, total...), nil
}

// spendParams returns the parameters of the statement that answers a query.
func spendParams(q spend.Query) (dbsql.ListSpendParams, error) {
	names := slices.Concat(q.Grouping.TagNames(), make([]string, spend.MaxTags))
	filter := []byte(noTags)
	if len(q.Filter.Tags) > 0 {
		var err error
		if filter, err = json.Marshal(q.Filter.Tags); err != nil {
			return dbsql.ListSpendParams{}, err
		}
	}
	page, total := spendSources(q)
	p := dbsql.ListSpendParams{
		OrganizationID: q.Organization, Span: string(q.Interval), Since: q.Since, Until: q.Until,
		ByProvider: slices.Contains(q.Grouping, spend.DimensionProvider), ByModel: slices.Contains(q.Grouping, spend.DimensionModel),
		ByKey: slices.Contains(q.Grouping, spend.DimensionKey), ByUser: slices.Contains(q.Grouping, spend.DimensionUser),
		Tag1: names[0], Tag2: names[1], Tag3: names[2], ByTags: q.WithTags,
		Provider: q.Filter.Provider, Model: q.Filter.Model, KeyID: q.Filter.Key, UserID: q.Filter.User, Tags: string(filter),
		PageSince: q.Since, PageSource: page, TotalSource: total,
		AfterBucket: q.After.Start, AfterTags: q.After.Tags, PageSize: int32(q.Limit),
	}
	if q.After.Start.After(q.Since) {
		p.PageSince = q.After.Start
	}
	place := map[spend.Dimension]*string{
		spend.DimensionProvider: &p.AfterProvider, spend.DimensionModel: &p.AfterModel,
		spend.DimensionKey: &p.AfterKey, spend.DimensionUser: &p.AfterUser,
	}
	tags := []*string{&p.AfterTag1, &p.AfterTag2, &p.AfterTag3}
	for i, value := range q.After.Values {
		if at := place[q.Grouping[i]]; at != nil {
			*at = value
			continue
		}
		*tags[0], tags = value, tags[1:]
	}
	return p, nil
}

// spendValues returns the values of a grouping.
func spendValues(g spend.Grouping, r *dbsql.ListSpendRow) []string {
	values := make([]string, len(g))
	tags := []string{r.Tag1, r.Tag2, r.Tag3}
	for i, d := range g {
		switch d {
		case spend.DimensionProvider:
			values[i] = r.Provider
		case spend.DimensionModel:
			values[i] = r.Model
		case spend.DimensionKey:
			values[i] = r.KeyID
		case spend.DimensionUser:
			values[i] = r.UserID
		default:
			values[i], tags = tags[0], tags[1:]
		}
	}
	return values
}

// spendFields are the fields of a row that hold the buckets, by the names that sqlc gives their columns.
var spendFields = func() (fields [provider.BucketCount][]int) {
	row := reflect.TypeFor[dbsql.ListSpendRow]()
	for _, b := range provider.Buckets() {
		field, _ := row.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, strings.ReplaceAll(b.Column(), "_", "")) })
		fields[b] = field.Index
	}
	return fields
}()

func spendSums(r *dbsql.ListSpendRow) (spend.Sums, error) {
	pico, ok := new(big.Int).SetString(r.CostPicoUsd, 10)
	if !ok {
		return spend.Sums{}, errors.New("the cost is not a whole number")
	}
	sums := spend.Sums{Calls: r.Calls, Pico: pico}
	row := reflect.ValueOf(r).Elem()
	for _, b := range provider.Buckets() {
		*b.Of(&sums.Usage) = row.FieldByIndex(spendFields[b]).Int()
	}
	return sums, nil
}
