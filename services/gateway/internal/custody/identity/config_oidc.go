package identity

import (
	"net/url"

	"switchyard.dev/services/platform/secret"
)

// Vendors that take tokens of other issuers themselves.
const (
	VendorOpenAI    = "openai"
	VendorAnthropic = "anthropic"
)

// OIDC is a token of the workload that OpenAI or Anthropic exchanges for one of its own.
type OIDC struct {
	// Vendor is VendorOpenAI or VendorAnthropic.
	Vendor string `yaml:"vendor"`
	// TokenFile holds the workload's token, such as one that Kubernetes projects.
	TokenFile secret.File `yaml:"token_file"`
	// TokenURL is the address of the exchange: OpenAI's, or /v1/oauth/token of the provider's base URL for Anthropic.
	TokenURL string `yaml:"token_url"`
	// SubjectTokenType is the type of the token for OpenAI; SubjectJWT unless set.
	SubjectTokenType string `yaml:"subject_token_type"`
	// IdentityProviderID is OpenAI's name of the issuer, FederationRuleID Anthropic's rule for it.
	IdentityProviderID string `yaml:"identity_provider_id"`
	FederationRuleID   string `yaml:"federation_rule_id"`
	// ServiceAccountID is whom the tokens stand for.
	ServiceAccountID string `yaml:"service_account_id"`
	// OrganizationID and WorkspaceID are Anthropic's; WorkspaceID is needed where the rule covers several.
	OrganizationID string `yaml:"organization_id"`
	WorkspaceID    string `yaml:"workspace_id"`
}

// The types of tokens that OpenAI takes (RFC 8693, section 3).
const (
	SubjectJWT = "urn:ietf:params:oauth:token-type:jwt"
	SubjectID  = "urn:ietf:params:oauth:token-type:id_token"
)

func (o *OIDC) complete(base *url.URL) error {
	switch {
	case o.Vendor == VendorOpenAI:
		if o.TokenURL == "" {
			o.TokenURL = "https://auth.openai.com/oauth/token"
		}
		if o.SubjectTokenType == "" {
			o.SubjectTokenType = SubjectJWT
		}
	case o.Vendor == VendorAnthropic && o.TokenURL == "" && base.Host != "":
		o.TokenURL = (&url.URL{Scheme: base.Scheme, Host: base.Host, Path: "/v1/oauth/token"}).String()
	}
	return nil
}

func (o *OIDC) check() error {
	if o.TokenFile == "" {
		return broken("token_file", "must be set")
	}
	var err error
	switch o.Vendor {
	case VendorOpenAI:
		err = o.checkOpenAI()
	case VendorAnthropic:
		err = o.checkAnthropic()
	default:
		return broken("vendor", `want "openai" or "anthropic"`)
	}
	if err != nil {
		return err
	}
	if o.TokenURL == "" {
		return broken("token_url", "must be set")
	}
	return checkURL("token_url", o.TokenURL)
}

func (o *OIDC) checkOpenAI() error {
	switch {
	case o.SubjectTokenType != SubjectJWT && o.SubjectTokenType != SubjectID:
		return broken("subject_token_type", "want "+SubjectJWT+" or "+SubjectID)
	case o.FederationRuleID != "" || o.OrganizationID != "" || o.WorkspaceID != "":
		return broken("federation_rule_id", "federation_rule_id, organization_id and workspace_id belong to vendor anthropic")
	}
	return checkWords(map[string]string{"identity_provider_id": o.IdentityProviderID, "service_account_id": o.ServiceAccountID})
}

func (o *OIDC) checkAnthropic() error {
	switch {
	case o.SubjectTokenType != "" || o.IdentityProviderID != "":
		return broken("identity_provider_id", "identity_provider_id and subject_token_type belong to vendor openai")
	case o.WorkspaceID != "" && !word.MatchString(o.WorkspaceID):
		return broken("workspace_id", "want an identifier")
	}
	return checkWords(map[string]string{
		"federation_rule_id": o.FederationRuleID, "organization_id": o.OrganizationID, "service_account_id": o.ServiceAccountID,
	})
}

// checkWords returns an error for the first field, by name, that is no identifier.
func checkWords(fields map[string]string) error {
	for _, name := range []string{"federation_rule_id", "identity_provider_id", "organization_id", "service_account_id"} {
		if value, ok := fields[name]; ok && !word.MatchString(value) {
			return broken(name, "want the vendor's identifier")
		}
	}
	return nil
}

func (o *OIDC) files() []*secret.File { return []*secret.File{&o.TokenFile} }

func (o *OIDC) subject() string { return o.Vendor + "/" + o.ServiceAccountID }

func (*OIDC) secrets() []secret.Value { return nil }
