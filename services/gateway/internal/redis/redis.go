// Package redis implements what replicas share for as long as it lasts: the
// board on which they tell each other of circuits. Losing all of it loses no
// completion.
package redis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/platform/redisdb"
)

// life is how long a replica counts as alive after its last exchange.
const life = 5 * time.Second

//go:embed exchange.lua
var exchangeText string

var exchange = redis.NewScript(exchangeText)

// Peers is a health.Peers in Redis. Its keys are the replicas by the time of
// their last exchange, the reports of each, and a lease for each probe; all of
// them end by themselves.
type Peers struct {
	client  *redisdb.Client
	replica string
}

// NewPeers returns the peers of one replica, under a name that no other has.
func NewPeers(client *redisdb.Client) *Peers {
	return &Peers{client: client, replica: strings.ToLower(rand.Text())}
}

// Exchange implements health.Peers in one round trip, by the server's clock.
func (p *Peers) Exchange(ctx context.Context, reports []health.Report, changed bool) (health.View, error) {
	channel := ""
	if changed {
		channel = p.channel()
	}
	keys := []string{p.client.Key("breaker", "replicas"), p.client.Key("breaker", "reports")}
	reply, err := exchange.Run(ctx, p.client, keys, p.replica, life.Milliseconds(), channel, encode(reports)).Slice()
	if err != nil {
		return health.View{}, fmt.Errorf("exchange reports: %w", err)
	}
	return p.view(reply)
}

func (p *Peers) view(reply []any) (health.View, error) {
	view := health.View{Self: p.replica}
	if len(reply)%2 != 0 {
		return view, errMalformed
	}
	for pair := range pairs(reply) {
		replica, ok := pair[0].(string)
		text, isText := pair[1].(string)
		if !ok || !isText {
			return view, errMalformed
		}
		view.Replicas++
		view.Reports = append(view.Reports, decode(replica, text)...)
	}
	return view, nil
}

var errMalformed = errors.New("exchange reports: the answer is malformed")

func pairs(list []any) func(func([]any) bool) {
	return func(yield func([]any) bool) {
		for i := 0; i+1 < len(list); i += 2 {
			if !yield(list[i : i+2]) {
				return
			}
		}
	}
}

// Lease implements health.Peers.
func (p *Peers) Lease(ctx context.Context, c health.Circuit, span time.Duration) (bool, error) {
	_, err := p.client.SetArgs(ctx, p.client.Key("breaker", "lease", c.Provider, c.Family), p.replica, redis.SetArgs{Mode: "NX", TTL: span}).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("lease a probe: %w", err)
	}
	return true, nil
}

// Watch implements health.Peers. The client connects again by itself; what is
// missed meanwhile, the next exchange finds.
func (p *Peers) Watch(ctx context.Context, onChange func()) error {
	subscription := p.client.Subscribe(ctx, p.channel())
	defer func() { _ = subscription.Close() }()
	messages := subscription.Channel()
	for {
		select {
		case <-ctx.Done():
			return nil
		case message, ok := <-messages:
			if !ok {
				return nil
			}
			if message.Payload != p.replica {
				onChange()
			}
		}
	}
}

func (p *Peers) channel() string { return p.client.Key("breaker", "changed") }

// encode writes a line for each report: provider, family, open or closed, age
// and rest in milliseconds. Names are escaped, so that the spaces divide. That of
// one organization has its number, and the last three divided by commas: a release
// that knows no such reports reads no line of less than five fields, and must not
// take it for one about all.
func encode(reports []health.Report) string {
	var text strings.Builder
	for _, r := range reports {
		phase := "closed"
		if r.Open {
			phase = "open"
		}
		if r.Organization != 0 {
			fmt.Fprintf(&text, "%s %s %x %s,%d,%d\n", url.QueryEscape(r.Circuit.Provider), url.QueryEscape(r.Circuit.Family),
				r.Organization, phase, r.Age.Milliseconds(), r.For.Milliseconds())
			continue
		}
		fmt.Fprintf(&text, "%s %s %s %d %d\n", url.QueryEscape(r.Circuit.Provider), url.QueryEscape(r.Circuit.Family), phase,
			r.Age.Milliseconds(), r.For.Milliseconds())
	}
	return text.String()
}

// decode reads the lines of a replica whose reports are so many milliseconds
// old. A line that can't be read is another version's, and says nothing.
func decode(replica, text string) []health.Report {
	first, rest, _ := strings.Cut(text, "\n")
	since, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return nil
	}
	var reports []health.Report
	for line := range strings.Lines(rest) {
		if r, ok := parse(strings.Fields(line), time.Duration(since)*time.Millisecond); ok {
			r.Replica = replica
			reports = append(reports, r)
		}
	}
	return reports
}

func parse(fields []string, since time.Duration) (r health.Report, ok bool) {
	var organization uint64
	if len(fields) == 4 {
		var err error
		if organization, err = strconv.ParseUint(fields[2], 16, 64); err != nil || organization == 0 {
			return r, false
		}
		fields = append(fields[:2:2], strings.Split(fields[3], ",")...)
	}
	if len(fields) < 5 {
		return r, false
	}
	provider, err1 := url.QueryUnescape(fields[0])
	family, err2 := url.QueryUnescape(fields[1])
	age, err3 := strconv.ParseInt(fields[3], 10, 64)
	left, err4 := strconv.ParseInt(fields[4], 10, 64)
	if errors.Join(err1, err2, err3, err4) != nil {
		return r, false
	}
	r = health.Report{
		Circuit: health.Circuit{Provider: provider, Family: family}, Organization: organization, Open: fields[2] == "open",
		Age: time.Duration(age)*time.Millisecond + since, For: time.Duration(left)*time.Millisecond - since,
	}
	return r, !r.Open || r.For > 0
}
