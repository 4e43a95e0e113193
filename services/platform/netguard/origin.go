package netguard

import "net/url"

// Origin returns the scheme, host and port of an HTTP URL in a form for comparison: the host is lower-case ASCII, and
// the port is always present. For any other text it returns "". Callers use it to protect stored credentials: a
// credential is meant for one origin, and the customer must send it again before it goes to another.
func Origin(text string) string {
	u, err := url.Parse(text)
	if err != nil || defaultPorts[u.Scheme] == "" {
		return ""
	}
	t, err := targetOf(u)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + t.host() + ":" + t.portString()
}

// SameOrigin reports whether two URLs have the same origin. It is false if either is not an HTTP URL.
func SameOrigin(a, b string) bool {
	origin := Origin(a)
	return origin != "" && origin == Origin(b)
}
