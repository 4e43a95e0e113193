//go:build !nocloud

package cloud

import (
	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/custody/identity/aws"
	"switchyard.dev/services/gateway/internal/custody/identity/azure"
	"switchyard.dev/services/gateway/internal/custody/identity/google"
)

func openCloud(c identity.Config, clients identity.Clients) (identity.Source, error) {
	switch {
	case c.AWS != nil:
		return aws.New(*c.AWS, clients)
	case c.GCP != nil:
		return google.New(*c.GCP, clients)
	default:
		return azure.New(*c.Azure, clients)
	}
}
