package identity

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"

	"switchyard.dev/services/platform/secret"
)

// CloudPlatform is the scope that Vertex AI wants.
const CloudPlatform = "https://www.googleapis.com/auth/cloud-platform"

// GCP is an identity of Google Cloud. Exactly one of CredentialsFile and Source is set.
type GCP struct {
	// CredentialsFile is a JSON file of the type service_account or external_account.
	CredentialsFile secret.File `yaml:"credentials_file"`
	// Source is SourceMetadata: the metadata server of the machine.
	Source string `yaml:"source"`
	// Account is the machine's service account; "default" unless set.
	Account string `yaml:"account"`
	// MetadataURL is the address of the metadata server; http://metadata.google.internal unless set.
	MetadataURL string `yaml:"metadata_url"`
	// Scopes are the scopes of the tokens; CloudPlatform unless set.
	Scopes []string `yaml:"scopes"`
	// QuotaProject is the project that calls count against, if it is not the one that serves them.
	QuotaProject string `yaml:"quota_project"`
	// Credentials is the service account of an organization; zero for the fleet.
	Credentials secret.Value `yaml:"-"`
}

var (
	accountName = regexp.MustCompile(`^(default|[A-Za-z0-9._-]{1,128}@[A-Za-z0-9.-]{1,128})$`)
	projectID   = regexp.MustCompile(`^([a-z0-9.-]{1,64}:)?[a-z][a-z0-9-]{4,62}$`)
)

func (g *GCP) complete(*url.URL) error {
	if len(g.Scopes) == 0 {
		g.Scopes = []string{CloudPlatform}
	}
	g.Scopes = slices.Clone(g.Scopes)
	if g.Source != "" && g.Account == "" {
		g.Account = "default"
	}
	if g.Source != "" && g.MetadataURL == "" {
		g.MetadataURL = "http://metadata.google.internal"
	}
	return nil
}

func (g *GCP) check() error {
	n := 0
	for _, set := range []bool{!g.Credentials.IsZero(), g.CredentialsFile != "", g.Source != ""} {
		if set {
			n++
		}
	}
	switch {
	case n != 1:
		return broken("source", "want exactly one of credentials_file and source")
	case g.Source != "" && g.Source != SourceMetadata:
		return broken("source", `want "metadata"`)
	case g.Source == "" && (g.Account != "" || g.MetadataURL != ""):
		return broken("account", `account and metadata_url belong to source "metadata"`)
	case g.Account != "" && !accountName.MatchString(g.Account):
		return broken("account", `want "default" or the mail of a service account`)
	case g.QuotaProject != "" && !projectID.MatchString(g.QuotaProject):
		return broken("quota_project", "want the id of a project")
	case len(g.Scopes) > 16:
		return broken("scopes", "want at most 16")
	}
	for _, scope := range g.Scopes {
		if !word.MatchString(scope) {
			return broken("scopes", "want URLs such as "+CloudPlatform)
		}
	}
	return checkMetadataURL("metadata_url", g.MetadataURL)
}

func (g *GCP) files() []*secret.File { return []*secret.File{&g.CredentialsFile} }

func (g *GCP) subject() string { return cmp.Or(g.Account, string(g.CredentialsFile)) }

func (g *GCP) secrets() []secret.Value { return []secret.Value{g.Credentials} }
