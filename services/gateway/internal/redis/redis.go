// Package redis stores what replicas share for a short time: the reports on circuits and replicas, change notifications,
// the books of quotas and the response cache. Losing all of it loses no completion.
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

// Peers implements health.Peers. Its keys are the replicas by the time of their last exchange, the reports of each
// replica, and a lease for each probe. All of them expire by themselves.
type Peers struct {
	client  *redisdb.Client
	replica string
	// about is the first part of the keys.
	about string
}

// NewPeers returns the Peers of one replica, under a new random name.
func NewPeers(client *redisdb.Client) *Peers { return newPeers(client, "breaker") }

// NewToolPeers returns the Peers of one replica for the circuits of tool servers.
func NewToolPeers(client *redisdb.Client) *Peers { return newPeers(client, "tool_breaker") }

func newPeers(client *redisdb.Client, about string) *Peers {
	return &Peers{client: client, replica: strings.ToLower(rand.Text()), about: about}
}

// Exchange implements health.Peers in one round trip, by the server's clock.
func (p *Peers) Exchange(ctx context.Context, reports []health.Report, changed bool) (health.View, error) {
	channel := ""
	if changed {
		channel = p.channel()
	}
	keys := []string{p.client.Key(p.about, "replicas"), p.client.Key(p.about, "reports")}
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
	_, err := p.client.SetArgs(ctx, p.client.Key(p.about, "lease", c.Provider, c.Family), p.replica, redis.SetArgs{Mode: "NX", TTL: span}).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("lease a probe: %w", err)
	}
	return true, nil
}

// Watch implements health.Peers. The client reconnects by itself; the next exchange brings what was missed meanwhile.
func (p *Peers) Watch(ctx context.Context, onChange func()) error {
	return receive(ctx, p.client, p.channel(), func(replica string) {
		if replica != p.replica {
			onChange()
		}
	})
}

func (p *Peers) channel() string { return p.client.Key(p.about, "changed") }

// encode writes a line for each report: provider, family, open or closed, age and remaining time in milliseconds. Names
// are escaped, so that they hold no spaces. A report about one organization has its number after the family, and the
// last three fields separated by commas: a release that does not know such reports skips lines of fewer than five
// fields, and must not mistake it for a report about all organizations.
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

// decode parses a replica's reports, after a first line with their age in milliseconds. A line that can't be parsed is
// another version's and is skipped.
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
