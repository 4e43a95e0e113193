package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"switchyard.dev/services/platform/spelling"
)

// injected matches "NAME=value", without the prefix, of variables that no operator sets and whose names look like
// settings: Kubernetes gives each pod the addresses of the Services in its namespace (GATEWAY_SERVICE_HOST,
// GATEWAY_PORT_9101_TCP, ...), and systemd sets NOTIFY_SOCKET.
var injected = regexp.MustCompile(`(^|_)(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?)=` +
	`|(^|_)PORT(_\d+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://` +
	`|(^|_)PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=` +
	`|^SOCKET=[/@]`)

// unknown returns an error for each variable that is not a setting. It contains only the name: the value may be a secret
// under a wrong name.
func unknown(prefix string, known []setting, vars map[string]string) []error {
	var names []string
	for _, s := range known {
		names = append(names, s.name)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		rest := strings.TrimPrefix(name, prefix+"_")
		if slices.Contains(names, name) || injected.MatchString(rest+"="+vars[name]) {
			continue
		}
		if near := spelling.Nearest(name, names, "_", max(2, len(rest)/3)); near != "" {
			errs = append(errs, fmt.Errorf("%s: unknown setting; did you mean %s?", name, near))
		} else {
			errs = append(errs, fmt.Errorf("%s: unknown setting", name))
		}
	}
	return errs
}
