package identity

import (
	"cmp"
	"net/url"
	"regexp"

	"switchyard.dev/services/platform/secret"
)

// Azure is an identity of Microsoft Entra. Exactly one of ClientSecretFile, FederatedTokenFile and Source is set.
type Azure struct {
	TenantID string `yaml:"tenant_id"`
	ClientID string `yaml:"client_id"`
	// ClientSecretFile holds the secret of the application ClientID.
	ClientSecretFile secret.File `yaml:"client_secret_file"`
	// FederatedTokenFile holds a token of another issuer that the application trusts.
	FederatedTokenFile secret.File `yaml:"federated_token_file"`
	// Source is SourceManagedIdentity: the machine's own identity, or the assigned one that ClientID names.
	Source string `yaml:"source"`
	// MetadataURL is the address of the machine's identity server; the platform's own unless set.
	MetadataURL string `yaml:"metadata_url"`
	// Scope is what the tokens are for. It follows from the host of Azure's own endpoints.
	Scope string `yaml:"scope"`
	// Authority is the address of Entra; that of the cloud in which the host is, unless set.
	Authority string `yaml:"authority"`
	// ClientSecret is the secret of an organization's application; zero for the fleet.
	ClientSecret secret.Value `yaml:"-"`
}

// cloud is one of Azure's separate clouds.
type cloud struct {
	domain, authority string
	// cognitive and foundry are the scopes for Azure OpenAI and for Foundry.
	cognitive, foundry string
}

var clouds = []cloud{
	{"azure.com", "https://login.microsoftonline.com", "https://cognitiveservices.azure.com/.default", "https://ai.azure.com/.default"},
	{"azure.us", "https://login.microsoftonline.us", "https://cognitiveservices.azure.us/.default", "https://ai.azure.us/.default"},
	{"azure.cn", "https://login.partner.microsoftonline.cn", "https://cognitiveservices.azure.cn/.default", "https://ai.azure.cn/.default"},
}

// PublicAuthority reports whether an authority is one of Azure's own clouds, whose metadata Entra vouches for.
func PublicAuthority(authority string) bool {
	for _, c := range clouds {
		if c.authority == authority {
			return true
		}
	}
	return false
}

var tenantName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,127}$`)

func (a *Azure) complete(base *url.URL) error {
	authority := clouds[0].authority
	for _, c := range clouds {
		if !under(base.Hostname(), c.domain) {
			continue
		}
		authority = c.authority
		scope := c.cognitive
		if under(base.Hostname(), "services.ai."+c.domain) {
			scope = c.foundry
		}
		if a.Scope == "" {
			a.Scope = scope
		}
	}
	if a.Authority == "" && a.Source == "" {
		a.Authority = authority
	}
	return nil
}

func (a *Azure) check() error {
	n := 0
	for _, set := range []bool{!a.ClientSecret.IsZero(), a.ClientSecretFile != "", a.FederatedTokenFile != "", a.Source != ""} {
		if set {
			n++
		}
	}
	switch {
	case n != 1:
		return broken("source", "want exactly one of client_secret_file, federated_token_file and source")
	case a.Source != "" && a.Source != SourceManagedIdentity:
		return broken("source", `want "managed_identity"`)
	case a.Source == "" && !tenantName.MatchString(a.TenantID):
		return broken("tenant_id", "want the id or a domain of the tenant")
	case a.Source == "" && !tenantName.MatchString(a.ClientID), a.ClientID != "" && !tenantName.MatchString(a.ClientID):
		return broken("client_id", "want the id of the application")
	case a.Source != "" && (a.TenantID != "" || a.Authority != ""):
		return broken("tenant_id", `tenant_id and authority don't belong to source "managed_identity"`)
	case a.Source == "" && a.MetadataURL != "":
		return broken("metadata_url", `belongs to source "managed_identity"`)
	case !word.MatchString(a.Scope):
		return broken("scope", `want the scope of the tokens, such as "https://cognitiveservices.azure.com/.default"; the base URL does not say it`)
	}
	return cmp.Or(
		checkMetadataURL("metadata_url", a.MetadataURL), checkOrigin("metadata_url", a.MetadataURL),
		checkURL("authority", a.Authority), checkOrigin("authority", a.Authority),
	)
}

func (a *Azure) files() []*secret.File {
	return []*secret.File{&a.ClientSecretFile, &a.FederatedTokenFile}
}

func (a *Azure) subject() string {
	if a.Source != "" {
		return a.Source + "/" + a.ClientID
	}
	return a.TenantID + "/" + a.ClientID
}

func (a *Azure) secrets() []secret.Value { return []secret.Value{a.ClientSecret} }
