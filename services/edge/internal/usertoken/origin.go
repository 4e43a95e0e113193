package usertoken

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"

	"switchyard.dev/services/platform/apierr"
)

const (
	// MaxOrigins bounds the origins of an organization.
	MaxOrigins = 50
	// maxOrigin bounds one in bytes: the longest host name has 253.
	maxOrigin = 270
)

const ruleOrigin = "must be an origin as a browser sends it, such as https://app.example.com: scheme, host in lower case, " +
	"a port unless it is the scheme's own; http for localhost only, no *"

// checkOrigins refuses more than bound origins, and values that are not origins.
func checkOrigins(origins []string, bound int) error {
	if len(origins) > bound {
		return apierr.Invalid("origins", fmt.Sprintf("must hold at most %d", bound))
	}
	for i, origin := range origins {
		if !validOrigin(origin) {
			return apierr.Invalid(fmt.Sprintf("origins[%d]", i), ruleOrigin)
		}
	}
	return nil
}

// hostName matches a host name in the form that browsers send: lower-case letters, digits, hyphens, punycode for others.
var hostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// validOrigin reports whether text is the serialization of a web origin (RFC 6454, section 6.2) that may call: of a
// secure scheme, or of the machine itself.
func validOrigin(text string) bool {
	if len(text) > maxOrigin {
		return false
	}
	u, err := url.Parse(text)
	if err != nil || text != u.Scheme+"://"+u.Host {
		return false
	}
	host, port := u.Hostname(), u.Port()
	address, err := netip.ParseAddr(host)
	whole := host
	if err == nil && address.Is6() {
		whole = "[" + host + "]"
	}
	if port != "" {
		whole += ":" + port
	}
	if u.Host != whole || err != nil && !hostName.MatchString(host) || err == nil && address.String() != host || !validPort(u.Scheme, port) {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && (host == "localhost" || err == nil && address.IsLoopback())
}

// validPort reports whether an origin of a scheme may have a port; browsers leave the scheme's own out.
func validPort(scheme, port string) bool {
	if port == "" {
		return true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == port && (scheme != "https" || n != 443) && (scheme != "http" || n != 80)
}
