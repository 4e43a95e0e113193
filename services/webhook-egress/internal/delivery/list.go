package delivery

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Filter chooses deliveries; what is empty lets all through.
type Filter struct {
	Organization string
	Owner        string
	Statuses     []Status
	EndpointID   string
	EventID      string
	EventType    string
	// Host is `host` or `host:port`.
	Host string
	// CreatedFrom and CreatedTo bound the time of acceptance, the second not included.
	CreatedFrom, CreatedTo time.Time
}

// List gives the deliveries that a filter lets through, newest first, with ids
// below before (LastID for the first page). The store looks at so many
// deliveries for a page at most that it may be short of the limit; next is zero
// on the last.
func (s *Service) List(ctx context.Context, f Filter, before ID, limit int) (page []Record, next ID, err error) {
	texts := map[string]string{
		"organization_id": f.Organization, "owner_id": f.Owner, "event_type": f.EventType, "host": f.Host,
	}
	if err := CheckTexts(texts); err != nil {
		return nil, ID{}, err
	}
	if !nameable(f.EndpointID) || !nameable(f.EventID) {
		return nil, ID{}, nil
	}
	page, next, err = s.o.Store.List(ctx, f, before, limit)
	if err != nil {
		return nil, ID{}, fmt.Errorf("list deliveries: %w", err)
	}
	return page, next, nil
}

// nameable reports whether anything can have an id; no id is that of anything.
func nameable(id string) bool {
	_, err := ParseID(id)
	return id == "" || err == nil
}

// HostPattern is a regular expression for the canonical URLs of a host, or of a
// host and port, that both Go and Postgres read alike; empty for every host.
func HostPattern(host string) string {
	if host == "" {
		return ""
	}
	const end = `([/?#]|$)`
	name, port := strings.ToLower(host), ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, ']') {
		name, port = name[:i], name[i+1:]
	}
	quoted := regexp.QuoteMeta(name)
	switch port {
	case "":
		return `^https?://` + quoted + `(:[0-9]+)?` + end
	case "80":
		return `^(http://` + quoted + `(:80)?|https://` + quoted + `:80)` + end
	case "443":
		return `^(https://` + quoted + `(:443)?|http://` + quoted + `:443)` + end
	}
	return `^https?://` + quoted + `:` + regexp.QuoteMeta(port) + end
}
