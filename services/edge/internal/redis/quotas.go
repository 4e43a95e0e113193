package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/platform/redisdb"
)

// count adds to a window. KEYS[1] is the window, ARGV[1] what to add, ARGV[2] what the window holds at least (negative
// for unknown), ARGV[3] the Unix time in seconds after which it is of no use. The result is what it then holds; -1, and
// nothing is added, if neither the server nor the caller knows.
var count = redis.NewScript(`
local held = tonumber(redis.call('GET', KEYS[1]) or -1)
held = math.max(held, tonumber(ARGV[2]))
if held < 0 then return -1 end
held = math.max(0, held + ARGV[1])
redis.call('SET', KEYS[1], string.format('%.0f', held), 'EXAT', ARGV[3])
return held
`)

// outlive is how long a window is kept after its end, for replicas whose clocks are behind.
const outlive = time.Minute

// Quotas implements quota.Shared. It is safe for concurrent use.
type Quotas struct{ client *redisdb.Client }

// NewQuotas returns Quotas on the client's server.
func NewQuotas(client *redisdb.Client) *Quotas { return &Quotas{client: client} }

// Add implements quota.Shared in one round trip.
func (q *Quotas) Add(ctx context.Context, reports []quota.Report) ([]int64, error) {
	counts, err := q.add(ctx, reports, count.EvalSha)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") { // no window has changed
		counts, err = q.add(ctx, reports, count.Eval)
	}
	return counts, err
}

func (q *Quotas) add(ctx context.Context, reports []quota.Report, run eval) ([]int64, error) {
	pipe := q.client.Pipeline()
	answers := make([]*redis.Cmd, len(reports))
	for i, r := range reports {
		answers[i] = run(ctx, pipe, []string{q.key(r.Window)}, r.Delta, r.Base, r.End.Add(outlive).Unix())
	}
	_, _ = pipe.Exec(ctx) // each result has its error
	counts := make([]int64, len(reports))
	for i, answer := range answers {
		held, err := answer.Int64()
		if err != nil {
			return nil, fmt.Errorf("add to quotas: %w", errors.Join(err, ctx.Err()))
		}
		counts[i] = held
	}
	return counts, nil
}

// key returns the name of a window. The length of the organization's id keeps two holders apart.
func (q *Quotas) key(w quota.Window) string {
	return q.client.Key("quota", string(w.Meter), strconv.FormatInt(int64(w.End.Sub(w.Start)/time.Second), 10),
		strconv.FormatInt(w.Start.Unix(), 10), strconv.Itoa(len(w.Organization)), w.Organization, w.Key)
}
