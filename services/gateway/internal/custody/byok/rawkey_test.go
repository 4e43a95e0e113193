package byok

import "testing"

func TestLooksRaw(t *testing.T) {
	for _, raw := range []string{
		"sk-proj-abcdEFGH1234abcdEFGH1234", "sk-ant-api03-aaaaaaaaBBBBBBBB1111-_aaaa", "AIzaSyA1234567890abcdefghijklmnopqrstuv",
		"Bearer abcdefghijklmnop", "gsk_abcdefghij0123456789ABCDEFGH", "AKIAIOSFODNN7EXAMPLE", "-----BEGIN PRIVATE KEY-----",
		"file:sk-ant-api03-aaaaaaaaBBBBBBBB1111", "env:KEY_sk-abcdefghij0123456789abcdef", "xai-0123456789abcdefABCDEF012345",
		"9fK2mQ7xW1pR8tY4uB6nC3vA5sD0gH2jL9", "0123456789abcdef0123456789abcdee", "hf_abcdefGHIJ0123456789klmn",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sig",
	} {
		if !LooksRaw(raw) {
			t.Errorf("%q passes", raw)
		}
	}
	for _, name := range []string{
		"", "openai", "acme", "team-billing@example.com", "user:3f1e8a52-9c1d-4b7e-8a52-9c1d4b7e8a52", "file:acme/openai.key",
		"env:BYOK_acme__OPENAI", "awssecretsmanager://byok/acme/openai-key-2026", "gcpsecretmanager://projects/prod-123456/secrets/byok-acme-openai",
		"service-account-for-the-whole-marketing-department", "key-for-the-billing-team-of-europe", "01ARZ3NDEKTSV4RRFFQ69G5FAV",
		"auth0|5f7c8ec7c33c6c004bbafe82", "sk-team", "pk-platform-engineering-department",
	} {
		if LooksRaw(name) {
			t.Errorf("%q is refused", name)
		}
	}
}
