package delivery

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Filter selects deliveries; an empty field matches all.
type Filter struct {
	Organization string
	// Every selects all organizations; then Organization is empty.
	Every      bool
	Owner      string
	Statuses   []Status
	EndpointID string
	EventID    string
	EventType  string
	// Host is `host` or `host:port`.
	Host string
	// CreatedFrom (inclusive) and CreatedTo (exclusive) bound the time of acceptance.
	CreatedFrom, CreatedTo time.Time
}

// List returns the matching deliveries with ids below before (LastID for the first page), newest first. The store
// examines a bounded number of deliveries per page, so a page may be shorter than limit; next is zero on the last
// page.
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

// nameable reports whether id is empty or can be the id of something.
func nameable(id string) bool {
	_, err := ParseID(id)
	return id == "" || err == nil
}

// HostPattern returns a regular expression for the canonical URLs of a host, or of a host and port. Go and Postgres
// interpret it alike. It is empty for every host.
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
