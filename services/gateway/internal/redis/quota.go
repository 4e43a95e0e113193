package redis

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/platform/redisdb"
)

//go:embed quota_window.lua
var quotaWindowText string

//go:embed quota_reserve.lua
var quotaReserveText string

//go:embed quota_exchange.lua
var quotaExchangeText string

var (
	quotaReserve  = redis.NewScript(quotaWindowText + quotaReserveText)
	quotaExchange = redis.NewScript(quotaWindowText + quotaExchangeText)
)

// Quotas implements quota.Store, by the server's clock. Its keys are those of the epoch (the epoch itself, the members,
// who has to replay and who did, the sequence numbers), and under the name of each epoch a hash for each subject, its
// calls in flight, and for each queue what was served and who waits. All expire two minutes after their last use.
type Quotas struct{ client *redisdb.Client }

// NewQuotas returns the books in a Redis server.
func NewQuotas(client *redisdb.Client) *Quotas { return &Quotas{client} }

var errQuotaAnswer = errors.New("the answer of the quota script is malformed")

// keys lists the keys of a script, each once.
type keys struct {
	quotas *Quotas
	epoch  string
	list   []string
	index  map[string]int
}

// of returns the number of a key, from 1.
func (k *keys) of(kind, name string) int {
	key := k.quotas.client.Key("quota", k.epoch, kind, name)
	at := k.index[key]
	if at == 0 {
		k.list = append(k.list, key)
		at = len(k.list)
		k.index[key] = at
	}
	return at
}

func (q *Quotas) keys(epoch string, common ...string) *keys {
	k := &keys{quotas: q, epoch: epoch, index: make(map[string]int)}
	for _, name := range common {
		k.list = append(k.list, q.client.Key("quota", name))
	}
	return k
}

type quotaPlace struct {
	Organization string  `json:"organization"`
	Waits        bool    `json:"waits"`
	Served       float64 `json:"served"`
	Cost         float64 `json:"cost"`
	Joins        bool    `json:"joins"`
	Slack        float64 `json:"slack"`
	Next         float64 `json:"next"`
}

type quotaBooking struct {
	Subject       int   `json:"subject"` // from 1
	Tokens        int64 `json:"tokens"`
	LimitTokens   int64 `json:"limit_tokens"`
	LimitRequests int64 `json:"limit_requests"`
	Concurrent    int   `json:"concurrent"`
	LeaseTokens   int64 `json:"lease_tokens"`
	LeaseRequests int64 `json:"lease_requests"`
	Own           bool  `json:"own"`
	Steady        bool  `json:"steady"`
}

type quotaRequest struct {
	Epoch        string           `json:"epoch"`
	Replica      string           `json:"replica"`
	ID           string           `json:"id"`
	Hold         int64            `json:"hold"`
	Place        *quotaPlace      `json:"place,omitempty"`
	Alternatives [][]quotaBooking `json:"alternatives"`
}

type quotaAnswer struct {
	Alternative int             `json:"alternative"`
	Served      float64         `json:"served"`
	Reached     float64         `json:"reached"`
	Leases      []int           `json:"leases"`
	Short       []quotaShortage `json:"short"`
	Used        [][]int64       `json:"used"`
}

type quotaShortage struct {
	Cause   quota.Cause `json:"cause"`
	Booking int         `json:"booking"`
	Wait    int64       `json:"wait"`
}

// Reserve implements quota.Store in one round trip.
func (q *Quotas) Reserve(ctx context.Context, r quota.Request) (quota.Grant, error) {
	k := q.keys(r.Epoch, "epoch", "members")
	request := quotaRequest{Epoch: r.Epoch, Replica: r.Replica, ID: r.ID, Hold: r.Hold.Milliseconds()}
	queue := ""
	if t := r.Place; t != nil {
		queue = t.Queue
		request.Place = &quotaPlace{t.Organization, t.Waits, t.Served, t.Cost, t.Joins, t.Slack, t.Next}
	}
	k.of("served", queue)
	k.of("waiting", queue)
	for _, bookings := range r.Alternatives {
		all := make([]quotaBooking, len(bookings))
		for i, b := range bookings {
			subject := k.of("subject", string(b.Subject))
			k.of("calls", string(b.Subject))
			all[i] = quotaBooking{
				Subject: (subject - 3) / 2, Tokens: b.Tokens, LimitTokens: b.Limit.Tokens, LimitRequests: b.Limit.Requests,
				Concurrent: b.Limit.Concurrent, LeaseTokens: b.Lease.Tokens, LeaseRequests: b.Lease.Requests, Own: b.Own, Steady: b.Steady,
			}
		}
		request.Alternatives = append(request.Alternatives, all)
	}
	text, err := json.Marshal(request)
	if err != nil {
		return quota.Grant{}, fmt.Errorf("encode quota request: %w", err)
	}
	reply, err := quotaReserve.Run(ctx, q.client, k.list, text).StringSlice()
	if err != nil {
		return quota.Grant{}, fmt.Errorf("reserve quota: %w", err)
	}
	if len(reply) == 0 {
		return quota.Grant{}, quota.ErrEpoch
	}
	return grantOf(r, reply)
}

// grantOf decodes the answer to a request.
func grantOf(r quota.Request, reply []string) (quota.Grant, error) {
	if len(reply) != 3 {
		return quota.Grant{}, fmt.Errorf("reserve quota: %w", errQuotaAnswer)
	}
	now, err := serverTime(reply[0], reply[1])
	if err != nil {
		return quota.Grant{}, err
	}
	var a quotaAnswer
	if err := json.Unmarshal([]byte(reply[2]), &a); err != nil {
		return quota.Grant{}, fmt.Errorf("reserve quota: %w: %w", errQuotaAnswer, err)
	}
	g := quota.Grant{Alternative: a.Alternative, Now: now, Served: a.Served, Reached: a.Reached}
	if a.Alternative < -1 || a.Alternative >= len(r.Alternatives) || a.Alternative < 0 && len(a.Short) == 0 || len(a.Short) > len(r.Alternatives) {
		return quota.Grant{}, fmt.Errorf("reserve quota: %w", errQuotaAnswer)
	}
	for i, s := range a.Short {
		if s.Booking < -1 || s.Booking >= len(r.Alternatives[i]) {
			return quota.Grant{}, fmt.Errorf("reserve quota: %w", errQuotaAnswer)
		}
		g.Short = append(g.Short, quota.Shortage{Cause: s.Cause, Booking: s.Booking, Wait: time.Duration(s.Wait) * time.Millisecond})
	}
	for _, numbers := range a.Used {
		var used []quota.Amount
		for pair := range slices.Chunk(numbers, 2) {
			used = append(used, quota.Amount{Tokens: pair[0], Requests: pair[len(pair)-1]})
		}
		g.Used = append(g.Used, used)
	}
	if a.Alternative >= 0 {
		g.Leases = make([]quota.Amount, len(r.Alternatives[a.Alternative]))
		for i, b := range r.Alternatives[a.Alternative] {
			if i < len(a.Leases) && a.Leases[i] == 1 {
				g.Leases[i] = b.Lease
			}
		}
	}
	return g, nil
}

func serverTime(seconds, microseconds string) (time.Time, error) {
	s, err1 := strconv.ParseInt(seconds, 10, 64)
	us, err2 := strconv.ParseInt(microseconds, 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return time.Time{}, fmt.Errorf("read the server's time: %w", err)
	}
	return time.Unix(s, us*1000), nil
}

type quotaReport struct {
	Replica   string        `json:"replica"`
	Epoch     string        `json:"epoch"`
	Candidate string        `json:"candidate"`
	Sequence  int64         `json:"sequence"`
	Members   []string      `json:"members,omitempty"`
	Replayed  bool          `json:"replayed"`
	Entries   []quotaEntry  `json:"entries,omitempty"`
	Holds     []quotaHold   `json:"holds,omitempty"`
	News      []quotaNews   `json:"news,omitempty"`
	Served    []quotaServed `json:"served,omitempty"`
	Queues    []int         `json:"queues,omitempty"`
}

type quotaEntry struct {
	Key      int   `json:"key"`
	Slot     int64 `json:"slot"`
	Tokens   int64 `json:"tokens"`
	Requests int64 `json:"requests"`
	// Replay is the key of what was replayed, 0 for another entry.
	Replay        int   `json:"replay"`
	KnownTokens   int64 `json:"known_tokens"`
	KnownRequests int64 `json:"known_requests"`
}

type quotaHold struct {
	Key int    `json:"key"`
	ID  string `json:"id"`
	For int64  `json:"for"`
}

type quotaNews struct {
	Key     int   `json:"key"`
	Blocked int64 `json:"blocked"`
	Cut     bool  `json:"cut"`
	Unseen  int64 `json:"unseen"`
	Reset   int64 `json:"reset"`
}

type quotaServed struct {
	Key          int     `json:"key"`
	Organization string  `json:"organization"`
	Cost         float64 `json:"cost"`
}

// Exchange implements quota.Store in one round trip.
func (q *Quotas) Exchange(ctx context.Context, r quota.Report) (quota.View, error) {
	k := q.keys(r.Epoch, "epoch", "members", "expected", "replayed", "sequences")
	text, err := json.Marshal(k.report(r))
	if err != nil {
		return quota.View{}, fmt.Errorf("encode quota report: %w", err)
	}
	reply, err := quotaExchange.Run(ctx, q.client, k.list, text).Slice()
	if err != nil {
		return quota.View{}, fmt.Errorf("exchange quotas: %w", err)
	}
	if len(reply) < 4 {
		return quota.View{}, fmt.Errorf("exchange quotas: %w", errQuotaAnswer)
	}
	v := quota.View{Trusted: reply[1] == int64(1)}
	v.Epoch, _ = reply[0].(string)
	seconds, _ := reply[2].(string)
	microseconds, _ := reply[3].(string)
	if v.Now, err = serverTime(seconds, microseconds); err != nil || v.Epoch == "" {
		return quota.View{}, fmt.Errorf("exchange quotas: %w", errors.Join(errQuotaAnswer, err))
	}
	for _, member := range reply[4:] {
		if name, ok := member.(string); ok {
			v.Members = append(v.Members, name)
		}
	}
	slices.Sort(v.Members)
	return v, nil
}

// report encodes a report, whose subjects and queues become keys.
func (k *keys) report(r quota.Report) quotaReport {
	report := quotaReport{
		Replica: r.Replica, Epoch: r.Epoch, Candidate: r.Candidate, Sequence: r.Sequence, Members: r.Members, Replayed: r.Replayed,
	}
	for _, e := range r.Entries {
		entry := quotaEntry{
			Key: k.of("subject", string(e.Subject)), Slot: e.Slot, Tokens: e.Amount.Tokens, Requests: e.Amount.Requests,
			KnownTokens: e.Known.Tokens, KnownRequests: e.Known.Requests,
		}
		if e.Replay {
			entry.Replay = k.of("replayed", string(e.Subject))
		}
		report.Entries = append(report.Entries, entry)
	}
	for _, h := range r.Holds {
		report.Holds = append(report.Holds, quotaHold{k.of("calls", string(h.Subject)), h.ID, h.For.Milliseconds()})
	}
	for _, n := range r.News {
		report.News = append(report.News, quotaNews{
			k.of("subject", string(n.Subject)), n.Blocked.Milliseconds(), n.Cut, n.Unseen, n.Reset.Milliseconds(),
		})
	}
	for _, s := range r.Served {
		report.Served = append(report.Served, quotaServed{k.of("served", s.Queue), s.Organization, s.Cost})
	}
	for _, w := range r.Queues {
		report.Queues = append(report.Queues, k.of("waiting", w.Queue))
	}
	return report
}
