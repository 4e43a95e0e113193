// Package cloud opens the source of each kind of identity. The libraries of AWS, Google and Azure are in it, but for
// builds with the tag nocloud. Only internal/app imports it.
package cloud

import (
	"errors"
	"fmt"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/custody/identity/oidc"
)

// Opener returns a function that opens the source of a complete configuration, as identity.Options wants it.
func Opener(clients identity.Clients) func(identity.Config) (identity.Source, error) {
	return func(c identity.Config) (identity.Source, error) { return open(c, clients) }
}

func open(c identity.Config, clients identity.Clients) (identity.Source, error) {
	switch kind := c.Kind(); kind {
	case "oidc":
		return oidc.New(*c.OIDC, clients)
	case "":
		return nil, errors.New("want exactly one of aws, gcp, azure and oidc")
	default:
		source, err := openCloud(c, clients)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		return source, nil
	}
}
