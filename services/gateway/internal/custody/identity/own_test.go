package identity

import (
	"encoding/json"
	"strings"
	"testing"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit/growth"
)

const serviceAccount = `{"type":"service_account","client_email":"robot@acme.iam.gserviceaccount.com","private_key_id":"k1",
	"private_key":"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n","token_uri":"https://oauth2.googleapis.com/token",
	"auth_uri":"https://accounts.google.com/o/oauth2/auth","client_x509_cert_url":"https://example.com/"}`

func TestOwnIdentities(t *testing.T) {
	like := Config{
		AWS: &AWS{Region: "us-east-1", Service: "bedrock", STSURL: "https://sts.internal"}, GCP: &GCP{Scopes: []string{"s"}},
		Azure: &Azure{Scope: "https://scope/.default", Authority: "https://login.internal", ClientSecretFile: "/fleet"},
	}
	aws, err := ParseOwn(secret.New(` {"access_key_id":"AKIDEXAMPLE12345","secret_access_key":"s3cr3t/+","session_token":"tok"}`), like)
	if err != nil || aws.AWS.Region != "us-east-1" || aws.AWS.Keys.Secret.Reveal() != "s3cr3t/+" || aws.AWS.STSURL != "" {
		t.Errorf("AWS: %+v, %v", aws.AWS, err)
	}
	azure, err := ParseOwn(secret.New(`{"tenant_id":"t","client_id":"c","client_secret":"s3cr3t~"}`), like)
	if err != nil || azure.Azure.Authority != "https://login.internal" || azure.Azure.ClientSecret.Reveal() != "s3cr3t~" || azure.Azure.ClientSecretFile != "" {
		t.Errorf("Azure: %+v, %v", azure.Azure, err)
	}
	gcp, err := ParseOwn(secret.New(serviceAccount), like)
	if err != nil {
		t.Fatalf("Google: %v", err)
	}
	var passed map[string]string
	if err := json.Unmarshal([]byte(gcp.GCP.Credentials.Reveal()), &passed); err != nil {
		t.Fatal(err)
	}
	if len(passed) != 5 || passed["token_uri"] != googleTokenURL || passed["client_email"] != "robot@acme.iam.gserviceaccount.com" {
		t.Errorf("what Google's library reads: %v", passed)
	}
	for _, c := range []Config{aws, azure, gcp} {
		if _, err := c.Complete("https://proxy.example.com", ""); err != nil {
			t.Errorf("%s: %v", c.Kind(), err)
		}
	}
}

// What would make this machine call an address, read a file or run a command is refused, and no error repeats it.
func TestRefusedOwnIdentities(t *testing.T) {
	account := func(old, replacement string) string { return strings.Replace(serviceAccount, old, replacement, 1) }
	for name, text := range map[string]string{
		"nothing":             ``,
		"a key":               `sk-canary`,
		"a list":              `["canary"]`,
		"no form":             `{"key":"canary"}`,
		"numbers":             `{"access_key_id":1}`,
		"external account":    `{"type":"external_account","token_url":"https://canary","credential_source":{"url":"http://169.254.169.254/canary"}}`,
		"a command":           `{"type":"external_account","credential_source":{"executable":{"command":"canary"}}}`,
		"a user":              `{"type":"authorized_user","refresh_token":"canary"}`,
		"impersonation":       `{"type":"impersonated_service_account","service_account_impersonation_url":"https://canary"}`,
		"another type's case": `{"TYPE":"external_account","client_secret":"canary"}`,
		"the last type":       `{"type":"service_account","type":"external_account","token_url":"https://canary"}`,
		"a role":              `{"role_arn":"arn:aws:iam::123456789012:role/canary","web_identity_token_file":"/etc/passwd"}`,
		"a key with a URL":    `{"access_key_id":"AKIDEXAMPLE12345","secret_access_key":"s","sts_url":"https://canary"}`,
		"a key with a line":   `{"access_key_id":"AKIDEXAMPLE12345","secret_access_key":"canary\nX: y"}`,
		"an id with a slash":  `{"access_key_id":"AKIDEXAMPLE12345/canary","secret_access_key":"s"}`,
		"no secret":           `{"access_key_id":"AKIDEXAMPLE12345"}`,
		"an authority":        `{"tenant_id":"t","client_id":"c","client_secret":"s","authority":"https://canary"}`,
		"a tenant that leads": `{"tenant_id":"t/../canary","client_id":"c","client_secret":"s"}`,
		"a file of the fleet": `{"tenant_id":"t","client_id":"c","client_secret":"s","client_secret_file":"/etc/canary"}`,
		"another token URL":   account(googleTokenURL, "https://canary.example.com/token"),
		"metadata as its URL": account(googleTokenURL, "http://169.254.169.254/canary"),
		"another universe":    account(`"private_key_id"`, `"universe_domain":"canary.example.com","private_key_id"`),
		"no private key":      account("-----BEGIN PRIVATE KEY-----", "canary"),
		"another mail":        account("robot@acme.iam.gserviceaccount.com", "canary canary"),
		"the machine's own":   account("robot@acme.iam.gserviceaccount.com", "default"),
		"nested deep":         `{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`,
		"too long":            `{"client_secret":"` + strings.Repeat("c", maxOwn) + `"}`,
	} {
		c, err := ParseOwn(secret.New(text), Config{})
		if err == nil {
			t.Errorf("%s: taken as %s", name, c.Kind())
		} else if strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error repeats what it refuses: %v", name, err)
		}
	}
}

func TestIsOwn(t *testing.T) {
	for text, want := range map[string]bool{`{"a":1}`: true, "\n\t{": true, "sk-key": false, "": false} {
		if got := IsOwn(secret.New(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestParseOwnGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each(growth.JSON, func(text []byte) { _, _ = ParseOwn(secret.New(string(text)), Config{}) })...)
}

// Whatever is taken names nothing that this machine would call or read.
func FuzzParseOwn(f *testing.F) {
	f.Add(serviceAccount)
	f.Add(`{"access_key_id":"AKIDEXAMPLE12345","secret_access_key":"s"}`)
	f.Add(`{"tenant_id":"t","client_id":"c","client_secret":"s"}`)
	f.Add(`{"type":"external_account"}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseOwn(secret.New(text), Config{})
		if err != nil {
			return
		}
		name, of := c.kind()
		if of == nil {
			t.Fatal("no kind, or two")
		}
		for _, file := range of.files() {
			if *file != "" {
				t.Errorf("%s: reads %s", name, *file)
			}
		}
		if c.GCP != nil {
			var passed map[string]string
			if json.Unmarshal([]byte(c.GCP.Credentials.Reveal()), &passed) != nil || passed["token_uri"] != googleTokenURL || passed["type"] != "service_account" || len(passed) != 5 {
				t.Errorf("passes on %v", passed)
			}
		}
		if c.AWS != nil && (c.AWS.STSURL != "" || c.AWS.MetadataURL != "" || c.AWS.AssumeRole != nil || c.AWS.Source != "") {
			t.Errorf("AWS %+v", c.AWS)
		}
		if c.Azure != nil && (c.Azure.Authority != "" || c.Azure.MetadataURL != "" || c.Azure.Source != "") {
			t.Errorf("Azure %+v", c.Azure)
		}
	})
}
