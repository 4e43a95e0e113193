package aws

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/custody/identity/identitytest"
	"switchyard.dev/services/platform/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	canary = "eyJhbGciOiJSUzI1NiJ9.canary.x"
	role   = "arn:aws:iam::123456789012:role/gateway"
	base   = "https://bedrock-runtime.eu-west-1.amazonaws.com"
)

// open returns the source of a configuration, given the address of a server; handler serves it.
func open(t *testing.T, configure func(server string) identity.AWS, handler http.HandlerFunc) *Source {
	t.Helper()
	server, clients := identitytest.Serve(t, handler)
	config := configure(server.URL)
	complete, err := identity.Config{AWS: &config}.Complete(base, "")
	if err != nil {
		t.Fatal(err)
	}
	source, err := New(*complete.AWS, clients)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// exchanged returns the grant and the key that its signer uses.
func exchanged(t *testing.T, source *Source) (grant identity.Grant, key string) {
	t.Helper()
	grant, err := source.Exchange(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	signer, ok := grant.Signer.(*Signer)
	if !ok || signer.region != "eu-west-1" || signer.service != "bedrock" {
		t.Fatalf("signer %T", grant.Signer)
	}
	c := signer.credentials
	return grant, c.AccessKeyID + " " + c.SecretAccessKey + " " + c.SessionToken
}

// answer is an answer of the Security Token Service.
func answer(operation string, expires time.Time) string {
	return fmt.Sprintf(`<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult><Credentials>
		<AccessKeyId>ASIAEXAMPLE</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>session</SessionToken>
		<Expiration>%[2]s</Expiration></Credentials></%[1]sResult></%[1]sResponse>`, operation, expires.UTC().Format(time.RFC3339))
}

func form(t *testing.T, r *http.Request) url.Values {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		t.Error(err)
	}
	return values
}

func TestWebIdentity(t *testing.T) {
	expires := time.Now().Add(time.Hour).Truncate(time.Second)
	token := identitytest.File(t, canary+"\n")
	source := open(t, func(server string) identity.AWS {
		return identity.AWS{RoleARN: role, WebIdentityTokenFile: token, STSURL: server}
	}, func(w http.ResponseWriter, r *http.Request) {
		want := url.Values{
			"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role},
			"RoleSessionName": {"switchyard"}, "WebIdentityToken": {canary},
		}
		if diff := cmp.Diff(want, form(t, r)); diff != "" || r.Header.Get("Authorization") != "" {
			t.Errorf("form (-want +got):\n%s%v", diff, r.Header)
		}
		_, _ = io.WriteString(w, answer("AssumeRoleWithWebIdentity", expires))
	})
	grant, key := exchanged(t, source)
	if key != "ASIAEXAMPLE secret session" || !grant.Expires.Equal(expires) || grant.Subject != "" {
		t.Errorf("key %q until %v as %q", key, grant.Expires, grant.Subject)
	}
}

// A role on top of a static key: the call for it is signed with the key.
func TestAssumeRole(t *testing.T) {
	id, key := identitytest.File(t, "AKIDEXAMPLE12345"), identitytest.File(t, "wJalrXUtnFEMI\n")
	source := open(t, func(server string) identity.AWS {
		return identity.AWS{
			AccessKeyIDFile: id, SecretAccessKeyFile: key, STSURL: server,
			AssumeRole: &identity.AssumeRole{RoleARN: role, ExternalID: "acme"}, SessionName: "gw",
		}
	}, func(w http.ResponseWriter, r *http.Request) {
		got := form(t, r)
		if got.Get("Action") != "AssumeRole" || got.Get("ExternalId") != "acme" || got.Get("RoleSessionName") != "gw" || got.Get("RoleArn") != role {
			t.Errorf("form %v", got)
		}
		if signed := r.Header.Get("Authorization"); !strings.Contains(signed, "Credential=AKIDEXAMPLE12345/") || !strings.Contains(signed, "/eu-west-1/sts/aws4_request") {
			t.Errorf("signature %s", signed)
		}
		_, _ = io.WriteString(w, answer("AssumeRole", time.Now().Add(time.Hour)))
	})
	if _, key := exchanged(t, source); key != "ASIAEXAMPLE secret session" {
		t.Errorf("key %q", key)
	}
}

// A static key is replaced by replacing its files.
func TestStaticKey(t *testing.T) {
	id, key, token := identitytest.File(t, "AKIDEXAMPLE12345\n"), identitytest.File(t, "one"), identitytest.File(t, "session")
	source := open(t, func(string) identity.AWS {
		return identity.AWS{AccessKeyIDFile: id, SecretAccessKeyFile: key, SessionTokenFile: token}
	}, http.NotFound)
	for _, text := range []string{"one", "two"} {
		if err := os.WriteFile(string(key), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		grant, got := exchanged(t, source)
		if got != "AKIDEXAMPLE12345 "+text+" session" || !grant.Expires.IsZero() || grant.Subject != "AKIDEXAMPLE12345" {
			t.Errorf("key %q until %v of %q", got, grant.Expires, grant.Subject)
		}
		if again := time.Until(grant.Renew); again < 50*time.Second || again > time.Minute {
			t.Errorf("read again in %v, want a minute", again)
		}
	}
	if err := os.WriteFile(string(id), []byte("canary/../x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Exchange(t.Context()); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("no id of a key: %v", err)
	}
}

func TestOwnKey(t *testing.T) {
	config, err := identity.ParseOwn(secret.New(`{"access_key_id":"AKIDEXAMPLE12345","secret_access_key":"s"}`), identity.Config{})
	if err != nil {
		t.Fatal(err)
	}
	source := open(t, func(string) identity.AWS { return *config.AWS }, http.NotFound)
	if _, key := exchanged(t, source); key != "AKIDEXAMPLE12345 s " {
		t.Errorf("key %q", key)
	}
}

// keyJSON is an answer of the servers that machines have.
func keyJSON(expires time.Time) string {
	return fmt.Sprintf(`{"Code":"Success","Type":"AWS-HMAC","AccessKeyId":"ASIAEXAMPLE","SecretAccessKey":"secret","Token":"session","Expiration":%q}`,
		expires.UTC().Format(time.RFC3339))
}

func TestInstance(t *testing.T) {
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true") // The environment configures nothing.
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")
	expires := time.Now().Add(30 * time.Minute).Truncate(time.Second)
	source := open(t, func(server string) identity.AWS {
		return identity.AWS{Source: identity.SourceInstance, MetadataURL: server}
	}, func(w http.ResponseWriter, r *http.Request) {
		const roles = "/latest/meta-data/iam/security-credentials/"
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") != "":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "300")
			_, _ = io.WriteString(w, "imds-token")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "imds-token":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == roles:
			_, _ = io.WriteString(w, "gateway")
		case r.URL.Path == roles+"gateway":
			_, _ = io.WriteString(w, keyJSON(expires))
		default:
			http.NotFound(w, r)
		}
	})
	if grant, key := exchanged(t, source); key != "ASIAEXAMPLE secret session" || !grant.Expires.Equal(expires) {
		t.Errorf("key %q until %v", key, grant.Expires)
	}
}

// A server without version 2 of the metadata service is not asked as version 1 would be.
func TestNoVersion1(t *testing.T) {
	source := open(t, func(server string) identity.AWS {
		return identity.AWS{Source: identity.SourceInstance, MetadataURL: server}
	}, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			t.Errorf("asked for %s without a token", r.URL.Path)
		}
		http.NotFound(w, r)
	})
	if _, err := source.Exchange(t.Context()); err == nil {
		t.Error("exchanged")
	}
}

func TestContainer(t *testing.T) {
	token := identitytest.File(t, "pod-token\n")
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/credentials" || r.Header.Get("Authorization") != "pod-token" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, keyJSON(time.Now().Add(time.Hour)))
	}
	configured := open(t, func(server string) identity.AWS {
		return identity.AWS{Source: identity.SourceContainer, MetadataURL: server + "/v1/credentials", AuthorizationTokenFile: token}
	}, handler)
	if _, key := exchanged(t, configured); key != "ASIAEXAMPLE secret session" {
		t.Errorf("key %q", key)
	}
	byPlatform := open(t, func(server string) identity.AWS {
		t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", server+"/v1/credentials")
		t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", string(token))
		return identity.AWS{Source: identity.SourceContainer}
	}, handler)
	if _, key := exchanged(t, byPlatform); key != "ASIAEXAMPLE secret session" {
		t.Errorf("key %q", key)
	}
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://credentials.example.com/")
	if _, err := byPlatform.Exchange(t.Context()); err == nil || !strings.Contains(err.Error(), "must be https") {
		t.Errorf("a far server without TLS: %v", err)
	}
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
	if _, err := byPlatform.Exchange(t.Context()); err == nil || !strings.Contains(err.Error(), "metadata_url") {
		t.Errorf("no server: %v", err)
	}
}

func TestFailures(t *testing.T) {
	token := identitytest.File(t, canary)
	for name, c := range map[string]struct {
		status       int
		answer, want string
	}{
		"a refusal": {http.StatusBadRequest, `<ErrorResponse><Error><Type>Sender</Type><Code>InvalidIdentityToken</Code><Message>` + canary + `</Message></Error></ErrorResponse>`, "status 400: InvalidIdentityToken"},
		"its text":  {http.StatusForbidden, `<ErrorResponse><Error><Code>` + canary + `</Code></Error></ErrorResponse>`, "status 403"},
		"down":      {http.StatusServiceUnavailable, canary, "status 503"},
		"no XML":    {http.StatusOK, canary, "get keys"},
		"no key":    {http.StatusOK, `<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult/></AssumeRoleWithWebIdentityResponse>`, "get keys"},
		"too large": {http.StatusOK, strings.Repeat(" ", 2<<20), "get keys: "},
		"nested":    {http.StatusOK, strings.Repeat("<a>", 300_000), "get keys"},
		"redirects": {http.StatusFound, "", "redirects"},
	} {
		calls := 0
		source := open(t, func(server string) identity.AWS {
			return identity.AWS{RoleARN: role, WebIdentityTokenFile: token, STSURL: server}
		}, func(w http.ResponseWriter, r *http.Request) {
			form(t, r)
			calls++
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.answer)
		})
		_, err := source.Exchange(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want an error that says %q without the token", name, err, c.want)
		}
		if calls != 1 {
			t.Errorf("%s: %d calls, want 1", name, calls)
		}
	}
}
