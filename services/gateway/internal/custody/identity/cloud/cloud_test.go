//go:build !nocloud

package cloud

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/platform/connpool"
	"switchyard.dev/services/platform/secret"
)

func TestOpener(t *testing.T) {
	open := Opener(identity.Clients{})
	for config, want := range map[identity.Config]string{
		{AWS: &identity.AWS{}}:     "*aws.Source",
		{GCP: &identity.GCP{}}:     "*google.Source",
		{Azure: &identity.Azure{}}: "*azure.Source",
		{OIDC: &identity.OIDC{}}:   "*oidc.Source",
	} {
		source, err := open(config)
		if got := fmt.Sprintf("%T", source); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", config.Kind(), got, err, want)
		}
	}
	for _, config := range []identity.Config{{}, {AWS: &identity.AWS{}, GCP: &identity.GCP{}}} {
		if _, err := open(config); err == nil {
			t.Errorf("%+v is opened", config)
		}
	}
}

// Vendors' libraries work over the pool of connections that the gateway calls vendors with.
func TestOverConnectionPool(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/": // The Security Token Service.
			_, _ = fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIA</AccessKeyId>`+
				`<SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>%s</Expiration></Credentials>`+
				`</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		case "/t/v2.0/.well-known/openid-configuration":
			_, _ = fmt.Fprintf(w, `{"issuer":"https://%[1]s/t/v2.0","token_endpoint":"https://%[1]s/t/oauth2/v2.0/token","authorization_endpoint":"https://%[1]s/t/a"}`, r.Host)
		default:
			w.Header().Set("Metadata-Flavor", "Google")
			_, _ = io.WriteString(w, `{"access_token":"tok","token_type":"Bearer","expires_in":3600}`)
		}
	}))
	pool := connpool.New(connpool.Options{})
	defer server.Close()
	defer pool.CloseIdleConnections()
	token := secret.File(filepath.Join(t.TempDir(), "token"))
	if err := os.WriteFile(string(token), []byte("tok"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := Opener(identity.NewClients(pool, pool))
	for _, config := range []identity.Config{
		{AWS: &identity.AWS{Region: "us-east-1", Service: "bedrock", RoleARN: "arn:aws:iam::123456789012:role/r", WebIdentityTokenFile: token, STSURL: server.URL}},
		{GCP: &identity.GCP{Source: identity.SourceMetadata, MetadataURL: server.URL}},
		{Azure: &identity.Azure{TenantID: "t", ClientID: "c", ClientSecretFile: token, Authority: server.URL, Scope: "https://ai.azure.com/.default"}},
		{OIDC: &identity.OIDC{Vendor: identity.VendorOpenAI, TokenFile: token, TokenURL: server.URL + "/oauth/token", IdentityProviderID: "i", ServiceAccountID: "s"}},
	} {
		complete, err := config.Complete("http://127.0.0.1", "")
		if err != nil {
			t.Fatal(err)
		}
		source, err := open(complete)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // The second over the connection of the first.
			grant, err := source.Exchange(t.Context())
			if err != nil || grant.Expires.Before(time.Now().Add(50*time.Minute)) {
				t.Errorf("%s: %+v, %v", config.Kind(), grant, err)
			}
		}
	}
}
