package aws

import (
	"context"
	"errors"
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

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/platform/secret"
)

// exchange is one exchange with the clients that make its calls.
type exchange struct {
	config  *identity.AWS
	clients identity.Clients
}

// provider returns what retrieves the keys. It is made for each exchange, since those of the library keep what they
// retrieved.
func (e *exchange) provider() (aws.CredentialsProvider, error) {
	base, err := e.base()
	if err != nil {
		return nil, err
	}
	role := e.config.AssumeRole
	if role == nil {
		return base, nil
	}
	return stscreds.NewAssumeRoleProvider(e.sts(base), role.RoleARN, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = e.config.SessionName
		if role.ExternalID != "" {
			o.ExternalID = &role.ExternalID
		}
	}), nil
}

func (e *exchange) base() (aws.CredentialsProvider, error) {
	c := e.config
	switch {
	case c.Keys != nil:
		return credentials.NewStaticCredentialsProvider(c.Keys.ID, c.Keys.Secret.Reveal(), c.Keys.SessionToken.Reveal()), nil
	case c.AccessKeyIDFile != "":
		return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return readKeys(c) }), nil
	case c.RoleARN != "":
		return stscreds.NewWebIdentityRoleProvider(e.sts(aws.AnonymousCredentials{}), c.RoleARN, tokenFile(c.WebIdentityTokenFile),
			func(o *stscreds.WebIdentityRoleOptions) { o.RoleSessionName = c.SessionName }), nil
	case c.Source == identity.SourceInstance:
		return e.instance(), nil
	case c.Source == identity.SourceContainer:
		return e.container()
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
func (e *exchange) sts(signed aws.CredentialsProvider) *sts.Client {
	options := sts.Options{Region: e.config.Region, HTTPClient: e.clients.Token, Credentials: signed, Retryer: aws.NopRetryer{}}
	if at := e.config.STSURL; at != "" {
		options.BaseEndpoint = &at
		if parsed, err := url.Parse(at); err == nil {
			options.HTTPClient = e.clients.For(parsed.Hostname())
		}
	}
	return sts.New(options)
}

// instance returns the provider of EC2's metadata server. Version 1 of it has no protection against requests that
// someone else makes a server send, and is never used.
func (e *exchange) instance() aws.CredentialsProvider {
	client := imds.New(imds.Options{
		Endpoint: e.config.MetadataURL, HTTPClient: e.clients.Metadata,
		ClientEnableState: imds.ClientEnabled, EnableFallback: aws.FalseTernary, Retryer: aws.NopRetryer{},
	})
	return ec2rolecreds.New(func(o *ec2rolecreds.Options) { o.Client = client })
}

// container returns the provider of the server that ECS and EKS have for containers. Where the configuration does not
// name it, the platform does: it has a different address in each task.
func (e *exchange) container() (aws.CredentialsProvider, error) {
	at := e.config.MetadataURL
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
		o.HTTPClient = e.clients.For(parsed.Hostname())
		o.Retryer = aws.NopRetryer{}
		o.AuthorizationTokenProvider = endpointcreds.TokenProviderFunc(e.authorization)
	}), nil
}

// authorization returns the token for the container's server; "" if it wants none.
func (e *exchange) authorization() (string, error) {
	file := e.config.AuthorizationTokenFile
	if file == "" {
		file = secret.File(os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"))
	}
	if file == "" {
		return os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN"), nil
	}
	token, err := identity.ReadToken(file)
	return token.Reveal(), err
}

// failure returns the error of an exchange without the text of any answer.
func failure(err error, recorder *identity.Recorder) error {
	err, cause := recorder.Error(err, "get keys"), err
	refused, ok := errors.AsType[*identity.RefusedError](err)
	coded, hasCode := errors.AsType[smithy.APIError](cause)
	if ok && hasCode && coded.ErrorCode() != unknownCode {
		refused.Code = identity.Code(coded.ErrorCode())
	}
	return err
}

// unknownCode is what the library calls an answer without a code.
const unknownCode = "UnknownError"
