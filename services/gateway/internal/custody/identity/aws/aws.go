// Package aws makes identities of AWS into signers of requests: static keys, a role that a token of the workload is
// exchanged for, the roles of EC2 instances and of containers, and a further role on top of each. Package identity/cloud
// opens it, in builds that have AWS's libraries.
package aws

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/platform/secret"
)

// rereadEvery is how often the files of a static key are read: a key is replaced by replacing its files.
const rereadEvery = time.Minute

// Source exchanges one identity.
type Source struct {
	config  identity.AWS
	clients identity.Clients
}

// New returns the source of a complete configuration.
func New(c identity.AWS, clients identity.Clients) (*Source, error) {
	return &Source{config: c, clients: clients}, nil
}

// Exchange implements identity.Source.
func (s *Source) Exchange(ctx context.Context) (identity.Grant, error) {
	clients, recorder := s.clients.Record()
	provider, err := (&exchange{&s.config, clients}).provider()
	if err != nil {
		return identity.Grant{}, err
	}
	credentials, err := provider.Retrieve(ctx)
	if err != nil {
		return identity.Grant{}, failure(err, recorder)
	}
	return s.grant(credentials)
}

func (s *Source) grant(c aws.Credentials) (identity.Grant, error) {
	if !c.HasKeys() {
		return identity.Grant{}, errors.New("the answer has no key")
	}
	grant := identity.Grant{Signer: NewSigner(c, s.config.Region, s.config.Service)}
	switch {
	case c.CanExpire:
		grant.Expires = c.Expires
	case s.config.Keys != nil:
		grant.Renew = time.Now().Add(time.Hour) // There is nothing to read.
	default:
		grant.Renew, grant.Subject = time.Now().Add(rereadEvery), c.AccessKeyID
	}
	return grant, nil
}

// readKeys reads a static key from its files.
func readKeys(c *identity.AWS) (keys aws.Credentials, err error) {
	var token secret.Value
	id, err := identity.ReadToken(c.AccessKeyIDFile)
	if err != nil {
		return keys, err
	}
	key, err := identity.ReadToken(c.SecretAccessKeyFile)
	if err != nil {
		return keys, err
	}
	if c.SessionTokenFile != "" {
		if token, err = identity.ReadToken(c.SessionTokenFile); err != nil {
			return keys, err
		}
	}
	if !identity.AccessKeyID(id.Reveal()) {
		return keys, errors.New("access_key_id_file: does not hold the id of an access key")
	}
	return aws.Credentials{AccessKeyID: id.Reveal(), SecretAccessKey: key.Reveal(), SessionToken: token.Reveal()}, nil
}
