package netguard

import "net/url"

// Origin returns the scheme, host and port of an HTTP URL in the form in which origins are compared: the host in lower
// case and in ASCII, the port also where it is the scheme's own. It is empty for other texts, which equal no origin.
// A stored credential is meant for one origin: callers ask for it again before they send it to another.
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

// SameOrigin reports whether two URLs have one origin.
func SameOrigin(a, b string) bool {
	origin := Origin(a)
	return origin != "" && origin == Origin(b)
}
