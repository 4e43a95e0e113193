package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/secret"
)

// maxOwn is the largest credential of an organization in bytes; a service account takes 2.4 KiB.
const maxOwn = 16 << 10

// googleTokenURL is the only address that a service account of an organization may name.
const googleTokenURL = "https://oauth2.googleapis.com/token" //nolint:gosec // An address.

// IsOwn reports whether the credential of an organization is an identity and not an API key.
func IsOwn(text secret.Value) bool { return strings.HasPrefix(strings.TrimSpace(text.Reveal()), "{") }

// ParseOwn reads an identity that an organization brings, as JSON:
//
//	{"access_key_id": …, "secret_access_key": …, "session_token": …}   of AWS; the token is optional
//	{"tenant_id": …, "client_id": …, "client_secret": …}               of Azure
//	{"type": "service_account", …}                                     the file that Google gives out
//
// An organization's JSON may name nothing that this machine would call, read or run: other forms of Google's files name
// addresses, files and commands, and every role names a source of its own. Therefore everything but the three forms is
// refused, and of Google's file only the key is used. Region, service, scopes and addresses are those of like, the
// fleet's identity for the same provider, or follow from its base URL; see Complete. The error repeats nothing of the
// text.
func ParseOwn(text secret.Value, like Config) (Config, error) {
	raw := []byte(text.Reveal())
	switch {
	case len(raw) > maxOwn:
		return Config{}, fmt.Errorf("want at most %d bytes", maxOwn)
	case jsoncheck.ObjectRule(raw) != "":
		return Config{}, errors.New(jsoncheck.ObjectRule(raw))
	}
	var form struct {
		Type         string `json:"type"`
		AccessKeyID  string `json:"access_key_id"`
		ClientSecret string `json:"client_secret"`
	}
	if err := json.Unmarshal(raw, &form); err != nil {
		return Config{}, errors.New("every member must be a string")
	}
	switch {
	case form.Type == "service_account":
		return ownGCP(raw, like.GCP)
	case form.Type != "":
		return Config{}, errors.New(`type: want "service_account"; other types name addresses, files or commands of their own`)
	case form.AccessKeyID != "":
		return ownAWS(raw, like.AWS)
	case form.ClientSecret != "":
		return ownAzure(raw, like.Azure)
	}
	return Config{}, errors.New("want access_key_id with secret_access_key, tenant_id with client_id and client_secret, or a service account of Google")
}

func ownAWS(raw []byte, like *AWS) (Config, error) {
	var own struct {
		AccessKeyID     string `json:"access_key_id"`
		SecretAccessKey string `json:"secret_access_key"`
		SessionToken    string `json:"session_token"`
	}
	if err := strict(raw, &own); err != nil {
		return Config{}, err
	}
	switch {
	case !AccessKeyID(own.AccessKeyID):
		return Config{}, broken("access_key_id", "want 16 to 128 letters and digits")
	case !printable(own.SecretAccessKey):
		return Config{}, broken("secret_access_key", "must be printable text")
	case own.SessionToken != "" && !printable(own.SessionToken):
		return Config{}, broken("session_token", "must be printable text")
	}
	aws := &AWS{Keys: &AccessKeys{ID: own.AccessKeyID, Secret: secret.New(own.SecretAccessKey), SessionToken: secret.New(own.SessionToken)}}
	if like != nil {
		aws.Region, aws.Service = like.Region, like.Service
	}
	return Config{AWS: aws}, nil
}

func ownAzure(raw []byte, like *Azure) (Config, error) {
	var own struct {
		TenantID     string `json:"tenant_id"`
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
	}
	if err := strict(raw, &own); err != nil {
		return Config{}, err
	}
	if !printable(own.ClientSecret) {
		return Config{}, broken("client_secret", "must be printable text")
	}
	azure := &Azure{TenantID: own.TenantID, ClientID: own.ClientID, ClientSecret: secret.New(own.ClientSecret)}
	if like != nil {
		azure.Scope, azure.Authority = like.Scope, like.Authority
	}
	switch {
	case !tenantName.MatchString(own.TenantID):
		return Config{}, broken("tenant_id", "want the id or a domain of the tenant")
	case !tenantName.MatchString(own.ClientID):
		return Config{}, broken("client_id", "want the id of the application")
	}
	return Config{Azure: azure}, nil
}

func ownGCP(raw []byte, like *GCP) (Config, error) {
	var own struct {
		ClientEmail    string `json:"client_email"`
		PrivateKeyID   string `json:"private_key_id"`
		PrivateKey     string `json:"private_key"`
		TokenURI       string `json:"token_uri"`
		UniverseDomain string `json:"universe_domain"`
	}
	if err := json.Unmarshal(raw, &own); err != nil {
		return Config{}, errors.New("every member must be a string")
	}
	switch {
	case own.ClientEmail == "default" || !accountName.MatchString(own.ClientEmail):
		return Config{}, broken("client_email", "want the mail of a service account")
	case !strings.HasPrefix(own.PrivateKey, "-----BEGIN "):
		return Config{}, broken("private_key", "want a key in PEM")
	case own.PrivateKeyID != "" && !word.MatchString(own.PrivateKeyID):
		return Config{}, broken("private_key_id", "want an identifier")
	case own.TokenURI != "" && own.TokenURI != googleTokenURL:
		return Config{}, broken("token_uri", "want "+googleTokenURL)
	case own.UniverseDomain != "" && own.UniverseDomain != "googleapis.com":
		return Config{}, broken("universe_domain", "want googleapis.com")
	}
	// Written anew, so that no library reads a member that was not checked here.
	checked, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": own.ClientEmail, "private_key_id": own.PrivateKeyID,
		"private_key": own.PrivateKey, "token_uri": googleTokenURL,
	})
	if err != nil {
		return Config{}, errors.New("the service account can't be encoded")
	}
	gcp := &GCP{Credentials: secret.New(string(checked))}
	if like != nil {
		gcp.Scopes = like.Scopes
	}
	return Config{GCP: gcp}, nil
}

// strict decodes an object. Members that to lacks are an error.
func strict(raw []byte, to any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if decoder.Decode(to) != nil {
		return errors.New("has an unknown member, or a value that is not a string")
	}
	return nil
}

// AccessKeyID reports whether a text has the form of an access key's id of AWS.
func AccessKeyID(text string) bool {
	if len(text) < 16 || len(text) > 128 {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool { return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && r != '_' })
}

// printable reports whether a text is not empty and can stand in a header.
func printable(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}
