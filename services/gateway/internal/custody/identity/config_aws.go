package identity

import (
	"cmp"
	"net/url"
	"regexp"
	"strings"

	"switchyard.dev/services/platform/secret"
)

// Sources of a machine's own identity, where its platform has several.
const (
	SourceInstance        = "instance"
	SourceContainer       = "container"
	SourceMetadata        = "metadata"
	SourceManagedIdentity = "managed_identity"
)

// AWS is an identity that signs requests with AWS's Signature Version 4. Exactly one of AccessKeyIDFile, RoleARN and
// Source is set.
type AWS struct {
	// Region and Service are those of the signature. Both follow from the host of AWS's own endpoints.
	Region  string `yaml:"region"`
	Service string `yaml:"service"`
	// AccessKeyIDFile and SecretAccessKeyFile hold a static key; SessionTokenFile the token of a temporary one.
	AccessKeyIDFile     secret.File `yaml:"access_key_id_file"`
	SecretAccessKeyFile secret.File `yaml:"secret_access_key_file"`
	SessionTokenFile    secret.File `yaml:"session_token_file"`
	// RoleARN is the role that the token of WebIdentityTokenFile is exchanged for, as session SessionName.
	RoleARN              string      `yaml:"role_arn"`
	WebIdentityTokenFile secret.File `yaml:"web_identity_token_file"`
	SessionName          string      `yaml:"session_name"`
	// Source is SourceInstance (EC2's metadata server, version 2) or SourceContainer (ECS, EKS Pod Identity).
	Source string `yaml:"source"`
	// MetadataURL is the address of that server; by default the platform's own. For a container that is what its
	// platform put into AWS_CONTAINER_CREDENTIALS_FULL_URI or AWS_CONTAINER_CREDENTIALS_RELATIVE_URI.
	MetadataURL string `yaml:"metadata_url"`
	// AuthorizationTokenFile has the token for the container's server; by default what
	// AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE or AWS_CONTAINER_AUTHORIZATION_TOKEN says.
	AuthorizationTokenFile secret.File `yaml:"authorization_token_file"`
	// AssumeRole is a further role that the identity takes.
	AssumeRole *AssumeRole `yaml:"assume_role"`
	// STSURL is the address of the Security Token Service; by default that of the region.
	STSURL string `yaml:"sts_url"`
	// Keys is the static key of an organization; nil for the fleet.
	Keys *AccessKeys `yaml:"-"`
}

// AssumeRole is a role that an identity takes.
type AssumeRole struct {
	RoleARN    string `yaml:"role_arn"`
	ExternalID string `yaml:"external_id"`
}

// AccessKeys is a static key of AWS.
type AccessKeys struct {
	ID                   string
	Secret, SessionToken secret.Value
}

var (
	regionName  = regexp.MustCompile(`^[a-z]{2,3}(-[a-z]+)+-[0-9]{1,2}$`)
	serviceName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)
	roleARN     = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]{1,576}$`)
	sessionName = regexp.MustCompile(`^[A-Za-z0-9_+=,.@-]{2,64}$`)
	externalID  = regexp.MustCompile(`^[A-Za-z0-9_+=,.@:/\\-]{2,1000}$`)
)

// services has the service names that AWS's hosts want in signatures, by the label of the host.
var services = map[string]string{
	"bedrock-runtime": "bedrock", "bedrock-runtime-fips": "bedrock", "bedrock": "bedrock", "bedrock-fips": "bedrock",
	"bedrock-mantle": "bedrock-mantle", "aws-external-anthropic": "aws-external-anthropic",
}

// signedHost returns the service and the region of one of AWS's hosts; empty if the host does not say.
func signedHost(host string) (service, region string) {
	if !under(host, "amazonaws.com", "amazonaws.com.cn", "api.aws") {
		return "", ""
	}
	labels := strings.Split(strings.ToLower(host), ".")
	for i, label := range labels {
		if services[label] == "" {
			continue
		}
		if i+1 < len(labels) && regionName.MatchString(labels[i+1]) {
			region = labels[i+1]
		}
		return services[label], region
	}
	return "", ""
}

func (a *AWS) complete(base *url.URL) error {
	service, region := signedHost(base.Hostname())
	if a.Service == "" {
		a.Service = service
	}
	if a.Region == "" {
		a.Region = region
	}
	if region != "" && a.Region != region {
		return broken("region", "differs from that of the base URL, "+region)
	}
	if a.SessionName == "" && (a.RoleARN != "" || a.AssumeRole != nil) {
		a.SessionName = "switchyard"
	}
	if a.Source == SourceInstance && a.MetadataURL == "" {
		a.MetadataURL = "http://169.254.169.254"
	}
	a.AssumeRole = copied(a.AssumeRole)
	return nil
}

func (a *AWS) check() error {
	if !regionName.MatchString(a.Region) {
		return broken("region", `want the region to sign for, such as "eu-west-1"; the base URL does not say it`)
	}
	if !serviceName.MatchString(a.Service) {
		return broken("service", `want the service to sign for, such as "bedrock"; the base URL does not say it`)
	}
	for _, check := range []func() error{a.checkSource, a.checkStatic, a.checkRole, a.checkMachine} {
		if err := check(); err != nil {
			return err
		}
	}
	if err := checkURL("sts_url", a.STSURL); err != nil {
		return err
	}
	if role := a.AssumeRole; role != nil {
		switch {
		case !roleARN.MatchString(role.RoleARN):
			return broken("assume_role.role_arn", "want the ARN of an IAM role")
		case role.ExternalID != "" && !externalID.MatchString(role.ExternalID):
			return broken("assume_role.external_id", "want 2 to 1000 letters, digits and _+=,.@:/\\-")
		}
	}
	return nil
}

func (a *AWS) checkSource() error {
	n := 0
	for _, set := range []bool{a.Keys != nil, a.AccessKeyIDFile != "" || a.SecretAccessKeyFile != "", a.RoleARN != "", a.Source != ""} {
		if set {
			n++
		}
	}
	if n != 1 {
		return broken("source", "want exactly one of access_key_id_file with secret_access_key_file, role_arn with web_identity_token_file, and source")
	}
	return nil
}

func (a *AWS) checkStatic() error {
	if a.SessionTokenFile != "" && a.AccessKeyIDFile == "" {
		return broken("session_token_file", "belongs to access_key_id_file")
	}
	return together("access_key_id_file", a.AccessKeyIDFile != "", "secret_access_key_file", a.SecretAccessKeyFile != "")
}

func (a *AWS) checkRole() error {
	switch {
	case a.RoleARN != "" && !roleARN.MatchString(a.RoleARN):
		return broken("role_arn", "want the ARN of an IAM role")
	case a.SessionName != "" && !sessionName.MatchString(a.SessionName):
		return broken("session_name", "want 2 to 64 letters, digits and _+=,.@-")
	}
	return together("role_arn", a.RoleARN != "", "web_identity_token_file", a.WebIdentityTokenFile != "")
}

func (a *AWS) checkMachine() error {
	switch {
	case a.Source != "" && a.Source != SourceInstance && a.Source != SourceContainer:
		return broken("source", `want "instance" or "container"`)
	case a.MetadataURL != "" && a.Source == "":
		return broken("metadata_url", "belongs to source")
	case a.AuthorizationTokenFile != "" && a.Source != SourceContainer:
		return broken("authorization_token_file", `belongs to source "container"`)
	}
	if a.Source == SourceInstance {
		if err := checkOrigin("metadata_url", a.MetadataURL); err != nil {
			return err
		}
	}
	return checkMetadataURL("metadata_url", a.MetadataURL)
}

func (a *AWS) files() []*secret.File {
	return []*secret.File{&a.AccessKeyIDFile, &a.SecretAccessKeyFile, &a.SessionTokenFile, &a.WebIdentityTokenFile, &a.AuthorizationTokenFile}
}

func (a *AWS) subject() string {
	switch {
	case a.AssumeRole != nil:
		return a.AssumeRole.RoleARN
	case a.RoleARN != "":
		return a.RoleARN
	case a.Keys != nil:
		return a.Keys.ID
	}
	return cmp.Or(a.Source, string(a.AccessKeyIDFile))
}

func (a *AWS) secrets() []secret.Value {
	if a.Keys == nil {
		return nil
	}
	return []secret.Value{a.Keys.Secret, a.Keys.SessionToken}
}
