package identity

import (
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"time"
)

// What the fake knows of its clients.
const (
	Issuer  = "https://issuer.fakes.test"
	Subject = "system:serviceaccount:default:gateway"

	// The audiences that the tokens of the workload must be for.
	AudienceAWS       = "sts.amazonaws.com"
	AudienceGoogle    = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/cluster"
	AudienceEntra     = "api://AzureADTokenExchange"
	AudienceOpenAI    = "https://api.openai.com/v1"
	AudienceAnthropic = "https://api.anthropic.com"

	AccessKeyID     = "AKIAFAKES00000000001"
	SecretAccessKey = "fakes+secret/access+key+0123456789abcdefg"
	RoleARN         = "arn:aws:iam::123456789012:role/gateway"
	ExternalID      = "fakes-external-id"
	ContainerToken  = "fakes-container-token"
	InstanceRole    = "gateway-instance"

	ServiceAccount = "gateway@fakes-project.iam.gserviceaccount.com"
	CloudPlatform  = "https://www.googleapis.com/auth/cloud-platform"

	Tenant       = "11111111-2222-3333-4444-555555555555"
	Client       = "66666666-7777-8888-9999-000000000000"
	ClientSecret = "fakes~client.secret-0123456789"

	IdentityProvider        = "idp_fakes"
	OpenAIServiceAccount    = "sa_fakes"
	FederationRule          = "fdrl_fakes"
	AnthropicOrganization   = "22222222-3333-4444-5555-666666666666"
	AnthropicServiceAccount = "svac_fakes"
	Workspace               = "wrkspc_fakes"
)

// workloadLife is how long a token of the workload lives.
const workloadLife = time.Hour

// Workload returns the claims of a token of the workload for an audience, valid now.
func (s *Server) Workload(audienceOf string) Claims {
	now := s.now()
	return Claims{
		Issuer: Issuer, Subject: Subject, Audience: audience{audienceOf},
		IssuedAt: now.Unix(), NotBefore: now.Unix(), Expires: now.Add(workloadLife).Unix(),
	}
}

// Sign returns a token of the workload's issuer.
func (s *Server) Sign(claims Claims) string { return sign(s.issuer(), claims) }

// Material is everything that a client of the servers would have.
type Material struct {
	// WorkloadTokens are tokens of the workload by what they are for: aws, google, entra, openai, anthropic.
	WorkloadTokens map[string]string `json:"workload_tokens"`
	// Values are the other parts of configurations by their names there.
	Values map[string]string `json:"values"`
	// ServiceAccount and ExternalAccount are credentials files of Google. The second one's source is the address that
	// serves the workload's token as a text.
	ServiceAccount  map[string]any `json:"service_account"`
	ExternalAccount map[string]any `json:"external_account"`
}

// Material returns what clients need of a fake that is served at an address.
func (s *Server) Material(at string) Material {
	token := func(audience string) string { return s.Sign(s.Workload(audience)) }
	return Material{
		WorkloadTokens: map[string]string{
			"aws": token(AudienceAWS), "google": token(AudienceGoogle), "entra": token(AudienceEntra),
			"openai": token(AudienceOpenAI), "anthropic": token(AudienceAnthropic),
		},
		Values: map[string]string{
			"access_key_id": AccessKeyID, "secret_access_key": SecretAccessKey, "role_arn": RoleARN, "external_id": ExternalID,
			"authorization_token": ContainerToken, "container_url": at + containerPath,
			"tenant_id": Tenant, "client_id": Client, "client_secret": ClientSecret,
			"identity_provider_id": IdentityProvider, "openai_service_account_id": OpenAIServiceAccount,
			"federation_rule_id": FederationRule, "organization_id": AnthropicOrganization,
			"anthropic_service_account_id": AnthropicServiceAccount, "workspace_id": Workspace,
		},
		ServiceAccount: map[string]any{
			"type": "service_account", "project_id": "fakes-project", "client_email": ServiceAccount,
			"private_key_id": "1", "private_key": s.privateKey(), "token_uri": at + "/token",
		},
		ExternalAccount: map[string]any{
			"type": "external_account", "audience": AudienceGoogle, "subject_token_type": typeJWT, "token_url": at + "/v1/token",
			"credential_source": map[string]any{"url": at + "/workload/token?" + url.Values{"audience": {AudienceGoogle}}.Encode()},
		},
	}
}

func (s *Server) privateKey() string {
	der, err := x509.MarshalPKCS8PrivateKey(s.account())
	if err != nil {
		panic("identity: " + err.Error())
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
