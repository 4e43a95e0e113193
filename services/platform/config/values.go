package config

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Targets is a comma-separated list of host:port. Hosts are in lower case, IPv6 addresses in brackets.
type Targets []string

// UnmarshalText parses and checks the list; an empty text is an empty list.
func (t *Targets) UnmarshalText(text []byte) error {
	items, err := list(text, parseTarget)
	if err == nil {
		*t = items
	}
	return err
}

// MarshalText returns the list in the form that UnmarshalText accepts.
func (t Targets) MarshalText() ([]byte, error) {
	return []byte(strings.Join(t, ",")), nil
}

// hostname matches the names that DNS and container networks use.
var hostname = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_.-]{0,252}[a-z0-9_])?$`)

func parseTarget(item string) (string, error) {
	host, port, err := net.SplitHostPort(item)
	if err != nil {
		return "", fmt.Errorf("%q: want host:port", item)
	}
	host = strings.ToLower(host)
	if !hostname.MatchString(host) && net.ParseIP(host) == nil {
		return "", fmt.Errorf("%q: want a host name or an IP address before the port", item)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", fmt.Errorf("%q: want a port from 1 to 65535", item)
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}

// Prefixes is a comma-separated list of networks in CIDR notation, such as "203.0.113.0/24,2001:db8:64::/96".
type Prefixes []netip.Prefix

// UnmarshalText parses and checks the list; an empty text is an empty list.
func (p *Prefixes) UnmarshalText(text []byte) error {
	items, err := list(text, parsePrefix)
	if err == nil {
		*p = items
	}
	return err
}

// MarshalText returns the list in the form that UnmarshalText accepts.
func (p Prefixes) MarshalText() ([]byte, error) {
	items := make([]string, len(p))
	for i, item := range p {
		items[i] = item.String()
	}
	return []byte(strings.Join(items, ",")), nil
}

func parsePrefix(item string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(item)
	switch {
	case err != nil || prefix.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%q: want an IPv4 or IPv6 network such as 203.0.113.0/24", item)
	case prefix != prefix.Masked():
		return netip.Prefix{}, fmt.Errorf("%q: has bits set after the prefix length; want %s", item, prefix.Masked())
	}
	return prefix, nil
}

// Durations is a comma-separated list of durations of zero or more, such as "5s,1m30s".
type Durations []time.Duration

// UnmarshalText parses the list; an empty text is an empty list.
func (d *Durations) UnmarshalText(text []byte) error {
	items, err := list(text, parseDuration)
	if err == nil {
		*d = items
	}
	return err
}

// MarshalText returns the list in the form that UnmarshalText accepts.
func (d Durations) MarshalText() ([]byte, error) {
	items := make([]string, len(d))
	for i, item := range d {
		items[i] = item.String()
	}
	return []byte(strings.Join(items, ",")), nil
}

func parseDuration(item string) (time.Duration, error) {
	d, err := time.ParseDuration(item)
	if err == nil && d < 0 {
		err = fmt.Errorf("%q: want a duration of zero or more", item)
	}
	return d, err
}

// list parses the items between commas, without surrounding spaces. It returns the error of the first invalid one.
func list[T any](text []byte, parse func(string) (T, error)) ([]T, error) {
	if strings.TrimSpace(string(text)) == "" {
		return nil, nil
	}
	var items []T
	for item := range strings.SplitSeq(string(text), ",") {
		value, err := parse(strings.TrimSpace(item))
		if err != nil {
			return nil, err
		}
		items = append(items, value)
	}
	return items, nil
}
