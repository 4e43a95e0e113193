package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Listener is an address that a process listens on, and the full name of its setting.
type Listener struct{ Setting, Address string }

// CheckListeners checks that each address of one process has the form host:port or :port, and that no two of them are
// the same: port 0 is a free one, so it may be given twice. An empty address is not listened on. The error joins all
// problems, each with its setting; whether the machine has the address is not checked.
func CheckListeners(all ...Listener) error {
	var errs []error
	var checked []listenAddress
	for _, l := range all {
		if l.Address == "" {
			continue
		}
		at, err := parseListenAddress(l.Address)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", l.Setting, err))
			continue
		}
		at.setting = l.Setting
		for _, other := range checked {
			if at.overlaps(other) {
				errs = append(errs, fmt.Errorf("%s: must differ from %s, which listens on port %d too", at.setting, other.setting, at.port))
			}
		}
		checked = append(checked, at)
	}
	return errors.Join(errs...)
}

// listenAddress is a parsed address. ip is not valid for a host name.
type listenAddress struct {
	setting, host string
	ip            netip.Addr
	port          int
}

func parseListenAddress(text string) (a listenAddress, err error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil || port == "" {
		return a, fmt.Errorf("%q: want host:port or :port", text)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return a, fmt.Errorf("%q: want a port from 0 to 65535", text)
	}
	a.port = int(number)
	a.host = strings.ToLower(host)
	switch a.host {
	case "":
		a.ip = netip.IPv6Unspecified() // The listener of both families.
	case "localhost":
		a.ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	default:
		a.ip, err = netip.ParseAddr(a.host)
	}
	if err != nil && (!hostname.MatchString(a.host) || isNumber(a.host)) {
		return a, fmt.Errorf("%q: want a host name or an IP address before the port, or neither", text)
	}
	return a, nil
}

// isNumber reports whether a host is a number with or without dots, which is an address if anything.
func isNumber(host string) bool {
	_, err := strconv.ParseUint(strings.ReplaceAll(host, ".", ""), 10, 64)
	return err == nil
}

// overlaps reports whether one process can't listen on both addresses.
func (a listenAddress) overlaps(b listenAddress) bool {
	switch {
	case a.port != b.port || a.port == 0:
		return false
	case a.host == b.host || a.ip == netip.IPv6Unspecified() || b.ip == netip.IPv6Unspecified():
		return true
	case !a.ip.IsValid() || !b.ip.IsValid():
		return false // Names are not resolved.
	case a.ip.IsUnspecified() || b.ip.IsUnspecified():
		return a.ip.Is4() && b.ip.Is4()
	}
	return a.ip == b.ip
}

// CheckDrain checks the times of a shutdown, the settings DRAIN_DELAY and DRAIN_GRACE of a service. The error names each
// that is negative.
func CheckDrain(prefix string, delay, grace time.Duration) error {
	var errs []error
	if delay < 0 {
		errs = append(errs, errors.New(prefix+"_DRAIN_DELAY: must not be negative"))
	}
	if grace < 0 {
		errs = append(errs, errors.New(prefix+"_DRAIN_GRACE: must not be negative"))
	}
	return errors.Join(errs...)
}
