package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/platform/secret"
)

// provider returns what retrieves the keys. It is made for each exchange, since those of the library keep what they
// retrieved.
func (s *Source) provider() (aws.CredentialsProvider, error) {
	base, err := s.base()
	if err != nil {
		return nil, err
	}
	role := s.config.AssumeRole
	if role == nil {
		return base, nil
	}
	return stscreds.NewAssumeRoleProvider(s.sts(base), role.RoleARN, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = s.config.SessionName
		if role.ExternalID != "" {
			o.ExternalID = &role.ExternalID
		}
	}), nil
}

func (s *Source) base() (aws.CredentialsProvider, error) {
	c := &s.config
	switch {
	case c.Keys != nil:
		return credentials.NewStaticCredentialsProvider(c.Keys.ID, c.Keys.Secret.Reveal(), c.Keys.SessionToken.Reveal()), nil
	case c.AccessKeyIDFile != "":
		return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return readKeys(c) }), nil
	case c.RoleARN != "":
		return stscreds.NewWebIdentityRoleProvider(s.sts(aws.AnonymousCredentials{}), c.RoleARN, tokenFile(c.WebIdentityTokenFile),
			func(o *stscreds.WebIdentityRoleOptions) { o.RoleSessionName = c.SessionName }), nil
	case c.Source == identity.SourceInstance:
		return s.instance(), nil
	case c.Source == identity.SourceContainer:
		return s.container()
	}
	return nil, errors.New("the configuration names no source")
}

// tokenFile is a file with the token of the workload.
type tokenFile secret.File

// GetIdentityToken implements stscreds.IdentityTokenRetriever.
func (f tokenFile) GetIdentityToken() ([]byte, error) {
	token, err := identity.ReadToken(secret.File(f))
	return []byte(token.Reveal()), err
}

// sts returns a client of the region's Security Token Service, which neither retries (the Manager does) nor reads
// anything from the environment.
func (s *Source) sts(signed aws.CredentialsProvider) *sts.Client {
	options := sts.Options{Region: s.config.Region, HTTPClient: s.clients.Token, Credentials: signed, Retryer: aws.NopRetryer{}}
	if at := s.config.STSURL; at != "" {
		options.BaseEndpoint = &at
		if parsed, err := url.Parse(at); err == nil {
			options.HTTPClient = s.clients.For(parsed.Hostname())
		}
	}
	return sts.New(options)
}

// instance returns the provider of EC2's metadata server. Version 1 of it has no protection against requests that
// someone else makes a server send, and is never used.
func (s *Source) instance() aws.CredentialsProvider {
	client := imds.New(imds.Options{
		Endpoint: s.config.MetadataURL, HTTPClient: s.clients.Metadata,
		ClientEnableState: imds.ClientEnabled, EnableFallback: aws.FalseTernary, Retryer: aws.NopRetryer{},
	})
	return ec2rolecreds.New(func(o *ec2rolecreds.Options) { o.Client = client })
}

// container returns the provider of the server that ECS and EKS have for containers. Where the configuration does not
// name it, the platform does: it has a different address in each task.
func (s *Source) container() (aws.CredentialsProvider, error) {
	at := s.config.MetadataURL
	if at == "" {
		at = os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	}
	if relative := os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); at == "" && strings.HasPrefix(relative, "/") {
		at = "http://169.254.170.2" + relative
	}
	parsed, err := url.Parse(at)
	switch {
	case err != nil || parsed.Host == "":
		return nil, errors.New("metadata_url: neither it nor AWS_CONTAINER_CREDENTIALS_FULL_URI or AWS_CONTAINER_CREDENTIALS_RELATIVE_URI names the container's server")
	case parsed.Scheme != "https" && !identity.IsLocal(parsed.Hostname()):
		return nil, errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI: must be https, except on this machine and at the addresses of metadata servers")
	}
	return endpointcreds.New(at, func(o *endpointcreds.Options) {
		o.HTTPClient = s.clients.For(parsed.Hostname())
		o.Retryer = aws.NopRetryer{}
		o.AuthorizationTokenProvider = endpointcreds.TokenProviderFunc(s.authorization)
	}), nil
}

// authorization returns the token for the container's server; "" if it wants none.
func (s *Source) authorization() (string, error) {
	file := s.config.AuthorizationTokenFile
	if file == "" {
		file = secret.File(os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"))
	}
	if file == "" {
		return os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN"), nil
	}
	token, err := identity.ReadToken(file)
	return token.Reveal(), err
}

// plain returns an error of the library without the text of an answer.
func plain(err error) error {
	refusal := &identity.RefusedError{}
	if answered, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		refusal.Status = answered.HTTPStatusCode()
		if response := answered.HTTPResponse(); response != nil && response.Response != nil && response.Request != nil {
			refusal.Host = response.Request.URL.Host
		}
	}
	if coded, ok := errors.AsType[smithy.APIError](err); ok {
		refusal.Code = identity.Code(coded.ErrorCode())
	}
	if refusal.Status >= http.StatusBadRequest || refusal.Status == 0 && refusal.Code != "" {
		return fmt.Errorf("get keys: %w", refusal)
	}
	return identity.Plain(err, "get keys")
}
