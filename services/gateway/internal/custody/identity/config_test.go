package identity

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"switchyard.dev/services/platform/secret"
)

// read reads YAML as the policy is read: strictly.
func read(text string) (c Config, err error) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	err = decoder.Decode(&c)
	return c, err
}

const (
	bedrock  = "https://bedrock-runtime.eu-west-1.amazonaws.com"
	openAI   = "https://api.openai.com/v1"
	vertex   = "https://europe-west4-aiplatform.googleapis.com"
	azureURL = "https://acme.openai.azure.com/openai/v1"
)

func TestComplete(t *testing.T) {
	for name, c := range map[string]struct {
		base, text string
		want       Config
	}{
		"static key": {bedrock, "aws: {access_key_id_file: keys/id, secret_access_key_file: /abs/key}", Config{AWS: &AWS{
			Region: "eu-west-1", Service: "bedrock", AccessKeyIDFile: "/etc/policy/keys/id", SecretAccessKeyFile: "/abs/key",
		}}},
		"role of a pod": {"https://bedrock-mantle.us-east-1.api.aws/openai/v1", "aws: {role_arn: 'arn:aws:iam::123456789012:role/gateway', web_identity_token_file: /var/run/token}", Config{AWS: &AWS{
			Region: "us-east-1", Service: "bedrock-mantle", RoleARN: "arn:aws:iam::123456789012:role/gateway",
			WebIdentityTokenFile: "/var/run/token", SessionName: "switchyard",
		}}},
		"instance": {"https://aws-external-anthropic.us-west-2.api.aws", "aws: {source: instance}", Config{AWS: &AWS{
			Region: "us-west-2", Service: "aws-external-anthropic", Source: SourceInstance, MetadataURL: "http://169.254.169.254",
		}}},
		"behind an address of its own": {"http://127.0.0.1:9", "aws: {source: container, region: us-east-1, service: bedrock, metadata_url: 'http://127.0.0.1:8'}", Config{AWS: &AWS{
			Region: "us-east-1", Service: "bedrock", Source: SourceContainer, MetadataURL: "http://127.0.0.1:8",
		}}},
		"service account": {vertex, "gcp: {credentials_file: google.json, quota_project: acme-billing}", Config{GCP: &GCP{
			CredentialsFile: "/etc/policy/google.json", Scopes: []string{CloudPlatform}, QuotaProject: "acme-billing",
		}}},
		"metadata server": {vertex, "gcp: {source: metadata}", Config{GCP: &GCP{
			Source: SourceMetadata, Account: "default", MetadataURL: "http://metadata.google.internal", Scopes: []string{CloudPlatform},
		}}},
		"application of Entra": {azureURL, "azure: {tenant_id: acme.onmicrosoft.com, client_id: 1-2, client_secret_file: /s}", Config{Azure: &Azure{
			TenantID: "acme.onmicrosoft.com", ClientID: "1-2", ClientSecretFile: "/s",
			Scope: "https://cognitiveservices.azure.com/.default", Authority: "https://login.microsoftonline.com",
		}}},
		"Foundry": {"https://acme.services.ai.azure.com/anthropic", "azure: {tenant_id: t, client_id: c, federated_token_file: /t}", Config{Azure: &Azure{
			TenantID: "t", ClientID: "c", FederatedTokenFile: "/t", Scope: "https://ai.azure.com/.default", Authority: "https://login.microsoftonline.com",
		}}},
		"a sovereign cloud": {"https://acme.openai.azure.us", "azure: {tenant_id: t, client_id: c, client_secret_file: /s}", Config{Azure: &Azure{
			TenantID: "t", ClientID: "c", ClientSecretFile: "/s", Scope: "https://cognitiveservices.azure.us/.default", Authority: "https://login.microsoftonline.us",
		}}},
		"managed identity": {azureURL, "azure: {source: managed_identity}", Config{Azure: &Azure{
			Source: SourceManagedIdentity, Scope: "https://cognitiveservices.azure.com/.default",
		}}},
		"OpenAI": {openAI, "oidc: {vendor: openai, token_file: /t, identity_provider_id: idp_1, service_account_id: sa_1}", Config{OIDC: &OIDC{
			Vendor: VendorOpenAI, TokenFile: "/t", TokenURL: "https://auth.openai.com/oauth/token", SubjectTokenType: SubjectJWT,
			IdentityProviderID: "idp_1", ServiceAccountID: "sa_1",
		}}},
		"Anthropic": {"https://api.anthropic.com", "oidc: {vendor: anthropic, token_file: /t, federation_rule_id: fdrl_1, organization_id: o, service_account_id: svac_1}", Config{OIDC: &OIDC{
			Vendor: VendorAnthropic, TokenFile: "/t", TokenURL: "https://api.anthropic.com/v1/oauth/token",
			FederationRuleID: "fdrl_1", OrganizationID: "o", ServiceAccountID: "svac_1",
		}}},
	} {
		config, err := read(c.text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		before := fmt.Sprintf("%+v", config)
		got, err := config.Complete(c.base, "/etc/policy")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got, cmp.Comparer(secret.Value.Equal)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if fmt.Sprintf("%+v", config) != before {
			t.Errorf("%s: Complete changed what it was called on", name)
		}
		again, err := got.Complete(c.base, "/etc/policy")
		if diff := cmp.Diff(got, again, cmp.Comparer(secret.Value.Equal)); diff != "" || err != nil {
			t.Errorf("%s: completing twice: %v\n%s", name, err, diff)
		}
	}
}

func TestRefusedConfigurations(t *testing.T) {
	const role = "role_arn: 'arn:aws:iam::123456789012:role/r', web_identity_token_file: /t"
	const key = "access_key_id_file: /i, secret_access_key_file: /k"
	const entra = "tenant_id: t, client_id: c, client_secret_file: /s"
	const openai = "vendor: openai, token_file: /t, identity_provider_id: i, service_account_id: s"
	for name, c := range map[string]struct{ base, text, field string }{
		"none":                     {bedrock, "{}", "want exactly one of aws, gcp, azure and oidc"},
		"two":                      {bedrock, "{gcp: {source: metadata}, azure: {source: managed_identity}}", "want exactly one"},
		"an unknown field":         {bedrock, "aws: {profile: default}", "profile"},
		"a secret in the file":     {bedrock, "aws: {access_key_id_file: \"a\\nb\"}", "want the path"},
		"no source":                {bedrock, "aws: {}", "aws.source"},
		"two sources":              {bedrock, "aws: {source: instance, " + role + "}", "aws.source"},
		"half a key":               {bedrock, "aws: {access_key_id_file: /i}", "aws.secret_access_key_file"},
		"the other half":           {bedrock, "aws: {secret_access_key_file: /i}", "aws.access_key_id_file"},
		"a token without a key":    {bedrock, "aws: {source: instance, session_token_file: /t}", "aws.session_token_file"},
		"a role without a token":   {bedrock, "aws: {role_arn: 'arn:aws:iam::123456789012:role/r'}", "aws.web_identity_token_file"},
		"a token without a role":   {bedrock, "aws: {source: instance, web_identity_token_file: /t}", "aws.role_arn"},
		"no ARN":                   {bedrock, "aws: {role_arn: gateway, web_identity_token_file: /t}", "aws.role_arn"},
		"no source of AWS":         {bedrock, "aws: {source: profile}", "aws.source"},
		"another region":           {bedrock, "aws: {region: us-east-1, " + key + "}", "aws.region"},
		"no region":                {"https://proxy.example.com", "aws: {service: bedrock, " + key + "}", "aws.region"},
		"no service":               {"https://proxy.example.com", "aws: {region: us-east-1, " + key + "}", "aws.service"},
		"a host like AWS's":        {"https://bedrock-runtime.eu-west-1.amazonaws.com.evil.example", "aws: {" + key + "}", "aws.region"},
		"plain STS":                {bedrock, "aws: {sts_url: 'http://sts.example.com', " + role + "}", "aws.sts_url"},
		"STS with a query":         {bedrock, "aws: {sts_url: 'https://sts.example.com/?a=b', " + role + "}", "aws.sts_url"},
		"a session's name":         {bedrock, "aws: {session_name: 'a b', " + role + "}", "aws.session_name"},
		"a further role":           {bedrock, "aws: {source: instance, assume_role: {role_arn: r}}", "aws.assume_role.role_arn"},
		"an external id":           {bedrock, "aws: {source: instance, assume_role: {role_arn: 'arn:aws:iam::123456789012:role/r', external_id: 'ä'}}", "aws.assume_role.external_id"},
		"a far metadata server":    {bedrock, "aws: {source: instance, metadata_url: 'http://metadata.example.com'}", "aws.metadata_url"},
		"a path of EC2's server":   {bedrock, "aws: {source: instance, metadata_url: 'http://127.0.0.1/latest'}", "aws.metadata_url"},
		"a path of an authority":   {azureURL, "azure: {authority: 'https://login.example.com/tenant', " + entra + "}", "azure.authority"},
		"a path of Azure's server": {azureURL, "azure: {source: managed_identity, metadata_url: 'http://127.0.0.1/x'}", "azure.metadata_url"},
		"metadata without source":  {bedrock, "aws: {metadata_url: 'http://127.0.0.1', " + key + "}", "aws.metadata_url"},
		"a token for EC2":          {bedrock, "aws: {source: instance, authorization_token_file: /t}", "aws.authorization_token_file"},
		"both of Google":           {vertex, "gcp: {source: metadata, credentials_file: /c}", "gcp.source"},
		"none of Google":           {vertex, "gcp: {}", "gcp.source"},
		"no source of Google":      {vertex, "gcp: {source: adc}", "gcp.source"},
		"an account with a file":   {vertex, "gcp: {credentials_file: /c, account: a@b}", "gcp.account"},
		"an account that climbs":   {vertex, "gcp: {source: metadata, account: ../../x}", "gcp.account"},
		"a scope with blanks":      {vertex, "gcp: {source: metadata, scopes: ['a b']}", "gcp.scopes"},
		"a project":                {vertex, "gcp: {source: metadata, quota_project: 'A b'}", "gcp.quota_project"},
		"no tenant":                {azureURL, "azure: {client_id: c, client_secret_file: /s}", "azure.tenant_id"},
		"a tenant that climbs":     {azureURL, "azure: {tenant_id: ../x, client_id: c, client_secret_file: /s}", "azure.tenant_id"},
		"no client":                {azureURL, "azure: {tenant_id: t, client_secret_file: /s}", "azure.client_id"},
		"two of Azure":             {azureURL, "azure: {source: managed_identity, " + entra + "}", "azure.source"},
		"a tenant of a machine":    {azureURL, "azure: {source: managed_identity, tenant_id: t}", "azure.tenant_id"},
		"no source of Azure":       {azureURL, "azure: {source: cli}", "azure.source"},
		"no scope":                 {"https://proxy.example.com", "azure: {" + entra + "}", "azure.scope"},
		"a plain authority":        {azureURL, "azure: {authority: 'http://login.example.com', " + entra + "}", "azure.authority"},
		"metadata of an app":       {azureURL, "azure: {metadata_url: 'http://127.0.0.1', " + entra + "}", "azure.metadata_url"},
		"no vendor":                {openAI, "oidc: {token_file: /t}", "oidc.vendor"},
		"no token":                 {openAI, "oidc: {vendor: openai}", "oidc.token_file"},
		"no provider":              {openAI, "oidc: {vendor: openai, token_file: /t, service_account_id: s}", "oidc.identity_provider_id"},
		"no account":               {openAI, "oidc: {vendor: openai, token_file: /t, identity_provider_id: i}", "oidc.service_account_id"},
		"another type of token":    {openAI, "oidc: {subject_token_type: x, " + openai + "}", "oidc.subject_token_type"},
		"Anthropic's with OpenAI":  {openAI, "oidc: {workspace_id: w, " + openai + "}", "oidc.federation_rule_id"},
		"a plain exchange":         {openAI, "oidc: {token_url: 'http://auth.example.com', " + openai + "}", "oidc.token_url"},
		"no rule":                  {"https://api.anthropic.com", "oidc: {vendor: anthropic, token_file: /t, organization_id: o, service_account_id: s}", "oidc.federation_rule_id"},
		"OpenAI's with Anthropic":  {"https://api.anthropic.com", "oidc: {vendor: anthropic, token_file: /t, identity_provider_id: i}", "oidc.identity_provider_id"},
		"a plain base of exchange": {"http://api.example.com", "oidc: {vendor: anthropic, token_file: /t, federation_rule_id: f, organization_id: o, service_account_id: s}", "oidc.token_url"},
	} {
		config, err := read(c.text)
		if err == nil {
			_, err = config.Complete(c.base, "/etc/policy")
		}
		if err == nil || !strings.Contains(err.Error(), c.field) {
			t.Errorf("%s: %v, want an error that names %s", name, err, c.field)
		}
	}
}

func TestSignedHost(t *testing.T) {
	for host, want := range map[string]string{
		"bedrock-runtime.us-east-1.amazonaws.com":               "bedrock us-east-1",
		"bedrock-runtime-fips.us-gov-west-1.amazonaws.com":      "bedrock us-gov-west-1",
		"bedrock-runtime.cn-north-1.amazonaws.com.cn":           "bedrock cn-north-1",
		"vpce-1-2.bedrock-runtime.eu-west-1.vpce.amazonaws.com": "bedrock eu-west-1",
		"Bedrock-Mantle.ap-southeast-2.api.aws":                 "bedrock-mantle ap-southeast-2",
		"aws-external-anthropic.us-east-1.api.aws":              "aws-external-anthropic us-east-1",
		"s3.us-east-1.amazonaws.com":                            " ",
		"bedrock-runtime.us-east-1.example.com":                 " ",
		"amazonaws.com":                                         " ",
	} {
		service, region := signedHost(host)
		if got := service + " " + region; got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}

func TestIsMetadata(t *testing.T) {
	for host, want := range map[string]bool{
		"169.254.169.254": true, "169.254.170.23": true, "fd00:ec2::254": true, "metadata.google.internal": true, "fe80::1": true,
		"127.0.0.1": false, "10.0.0.1": false, "metadata.example.com": false, "169.254.169.254.example.com": false, "": false,
	} {
		if got := IsMetadata(host); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
}

// A secret of an organization is in no text that is made of its configuration.
func TestConfigurationsShowNoSecrets(t *testing.T) {
	const canary = "canary-0123456789"
	config := Config{
		AWS: &AWS{Keys: &AccessKeys{ID: "AKIDEXAMPLE12345", Secret: secret.New(canary), SessionToken: secret.New(canary)}},
		GCP: &GCP{Credentials: secret.New(canary)}, Azure: &Azure{ClientSecret: secret.New(canary)},
	}
	asJSON, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%s %s %+v %#v", asJSON, asYAML, *config.AWS.Keys, config.Azure); strings.Contains(text, canary) {
		t.Errorf("it is in %s", text)
	}
}

// Every example of the documentation is complete.
func TestDocumentedConfigurations(t *testing.T) {
	text, err := os.ReadFile("../../../docs/identities.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		var provider struct {
			BaseURL     string   `yaml:"base_url"`
			Credentials []Config `yaml:"credentials"`
		}
		decoder := yaml.NewDecoder(strings.NewReader(block))
		decoder.KnownFields(true)
		if err := decoder.Decode(&provider); err != nil {
			t.Errorf("%v in\n%s", err, block)
		}
		for i, config := range provider.Credentials {
			done, err := config.Complete(provider.BaseURL, "/etc/gateway")
			if err != nil {
				t.Errorf("credentials[%d]: %v in\n%s", i, err, block)
			}
			kinds[done.Kind()]++
		}
	}
	if diff := cmp.Diff(map[string]int{"aws": 4, "gcp": 2, "azure": 4, "oidc": 2}, kinds); diff != "" {
		t.Errorf("examples by kind (-want +got):\n%s", diff)
	}
}
