package google

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/url"

	"cloud.google.com/go/auth/credentials"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/platform/jsoncheck"
)

// File is what is read of a credentials file before Google's library reads it.
type File struct {
	Type           credentials.CredType `json:"type"`
	ClientEmail    string               `json:"client_email"`
	PrivateKey     string               `json:"private_key"`
	TokenURI       string               `json:"token_uri"`
	UniverseDomain string               `json:"universe_domain"`
	Audience       string               `json:"audience"`
	TokenURL       string               `json:"token_url"`
	Impersonation  string               `json:"service_account_impersonation_url"`
	Source         struct {
		File          string          `json:"file"`
		URL           string          `json:"url"`
		Executable    json.RawMessage `json:"executable"`
		Certificate   json.RawMessage `json:"certificate"`
		EnvironmentID string          `json:"environment_id"`
	} `json:"credential_source"`
}

// Check returns what a credentials file declares, or an error for one of a type that is not served, that names an address
// without TLS, or a source that runs a command or reads the environment. It repeats nothing of the file.
func Check(text []byte) (File, error) {
	var f File
	if !jsoncheck.Valid(text) || json.Unmarshal(text, &f) != nil {
		return f, errors.New("not the JSON of a credential")
	}
	switch f.Type {
	case credentials.ServiceAccount:
		if f.UniverseDomain != "" && f.UniverseDomain != "googleapis.com" {
			return f, errors.New("universe_domain: want googleapis.com")
		}
		if block, _ := pem.Decode([]byte(f.PrivateKey)); block == nil {
			return f, errors.New("private_key: want a key in PEM")
		}
		return f, address("token_uri", f.TokenURI, false)
	case credentials.ExternalAccount:
		return f, f.checkExternal()
	default:
		return f, errors.New(`type: want "service_account" or "external_account"`)
	}
}

func (f *File) checkExternal() error {
	source := &f.Source
	switch {
	case absent(source.Executable) && absent(source.Certificate) && source.EnvironmentID == "" && (source.File == "") != (source.URL == ""):
	default:
		return errors.New("credential_source: want file or url; commands, certificates and AWS's environment are not used")
	}
	if f.TokenURL == "" {
		return errors.New("token_url: must be set")
	}
	return errors.Join(
		address("token_url", f.TokenURL, false),
		address("service_account_impersonation_url", f.Impersonation, false),
		address("credential_source.url", source.URL, true),
	)
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// address returns an error for an address that may not be called; an empty one is valid.
func address(field, text string, metadata bool) error {
	if text == "" {
		return nil
	}
	at, err := url.Parse(text)
	plain := err == nil && at.Scheme == "http" && (identity.IsLoopback(at.Hostname()) || metadata && identity.IsMetadata(at.Hostname()))
	if err != nil || at.Host == "" || at.User != nil || at.Scheme != "https" && !plain {
		return errors.New(field + ": must be an https URL, except on this machine")
	}
	return nil
}

// subject names the identity of a file.
func (f *File) subject() string {
	switch {
	case f.ClientEmail != "":
		return f.ClientEmail
	case f.Impersonation != "":
		return f.Impersonation
	}
	return f.Audience
}
