package screen_test

import (
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/services/platform/screen"
)

// keys are invented keys, one of each form.
var keys = map[string]string{
	"OpenAI project":       "sk-proj-abcdEFGH1234abcdEFGH1234",
	"Anthropic":            "sk-ant-api03-aaaaaaaaBBBBBBBB1111-_aaaa",
	"OpenRouter":           "sk-or-v1-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
	"with words":           "sk-live-canary-0123456789abcdef",
	"Google":               "AIzaSyA1234567890abcdefghijklmnopqrstuv",
	"Google, new":          "AQ.Ab8RN6KzYx0123456789abcdefghij",
	"Groq":                 "gsk_abcdefghij0123456789ABCDEFGH",
	"xAI":                  "xai-0123456789abcdefABCDEF012345",
	"Hugging Face":         "hf_abcdefGHIJ0123456789klmn",
	"NVIDIA":               "nvapi-0123456789abcdef_0123456789-abcdefABCD",
	"Perplexity":           "pplx-0123456789abcdefABCDEF0123456789",
	"Fireworks":            "fw_3ZabcdEFGH0123456789ijkl",
	"Replicate":            "r8_abcdefghijklmnopqrstuvwxyz0123456789A",
	"Cerebras":             "csk-0123456789abcdefghijklmnopqrstuv",
	"AWS":                  "AKIAIOSFODNN7EXAMPLE",
	"AWS secret":           "wJalrXUtn5EMI/K7MDENG/bPxRfiCY2EXAMPLEKEY",
	"GitHub":               "ghp_0123456789abcdefghijABCDEFGHIJ012345",
	"GitHub, fine-grained": "github_pat_11ABCDEFG0abcdefghijkl_0123456789",
	"product key":          "swy_live_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklm",
	"webhook secret":       "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	"JWT":                  "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sig",
	"bearer":               "Bearer abcdefghijklmnop",
	"PEM":                  "-----BEGIN PRIVATE KEY-----",
	"no form":              "9fK2mQ7xW1pR8tY4uB6nC3vA5sD0gH2jL9",
	"URL-safe base64":      "Zk3x9QwLp2vB7nM4sR8tYc1uHd6-Jf0GaXeKoWi5_Ab",
	"in a path":            "models/sk-ant-api03-aaaaaaaaBBBBBBBB1111",
	"behind an underscore": "env:KEY_sk-abcdefghij0123456789abcdef",
	"among words":          "my key is sk-abcdefghij0123456789abcdef!",
}

// names are names of models, deployments, runs and people.
var names = []string{
	"", "openai", "gpt-4o-2024-08-06", "accounts/fireworks/models/llama-v3p1-405b-instruct", "anthropic/claude-sonnet-4.5:beta",
	"@cf/meta/llama-3.1-8b", "@hf/thebloke/deepseek-coder-6.7b-instruct-awq", "ft:gpt-4o-mini:org:name:id",
	"ft:gpt-4o-mini-2024-07-18:acme-corp:support-bot:9XyZ3abC", "3f1e8a52-9c1d-4b7e-8a52-9c1d4b7e8a52",
	"deployment-3F1E8A52-9C1D-4B7E-8A52-9C1D4B7E8A52", "meta-llama/Meta-Llama-3.1-405B-Instruct-Turbo",
	"Qwen/Qwen2-VL-72B-Instruct-GPTQ-Int4-AWQ", "hf-internal-testing/tiny-random-LlamaForCausalLM", "xai-grok-4-fast-reasoning",
	"xai/grok-4-fast-non-reasoning-20251101", "us.anthropic.claude-3-5-sonnet-20240620-v1:0", "co-pilot-for-engineering-teams-2024",
	"arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-3-5-sonnet-20240620-v1:0",
	"projects/123456789012/locations/us-central1/endpoints/1234567890123456789", "accounts/acme2024/deployments/prod1x-eu-west",
	"meta/llama-2-70b:02e509c789964a7ea8736978a43525956ef40397be9033abf9fd2badfe68c9e3",
	"llama3@sha256:6a0746a1ec1aef3e7ec53868f220ff6e389f6f8ef87a01d77c96807de94ca2aa", "AzureOpenAIGpt4oProductionDeployment",
	"publishers/google/models/gemini-2.5-flash-preview-native-audio-dialog", "text-embedding-3-large", "ministral-8b-latest",
	"NousResearch/Hermes-2-Mixtral-8x7B-DPO", "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "sk-team", "key-for-the-billing-team-of-europe",
	"key-rotation-2024-of-the-platform-team", "pk-platform-engineering-department", "team-sk-bratislava-office-2024", "01ARZ3NDEKTSV4RRFFQ69G5FAV",
	"auth0|5f7c8ec7c33c6c004bbafe82", "team-billing@example.com", "key_a2b3c4d5e6f7ghijklmnopqrst", "apr_ABCDEFGHIJKLMNOPQRSTUVWXYZ", "req_06GC3T4MJ5QK70Q1P2N8R9S0TV",
	"user:3f1e8a52-9c1d-4b7e-8a52-9c1d4b7e8a52", "env:BYOK_acme__OPENAI", "awssecretsmanager://byok/acme/openai-key-2026",
	"gcpsecretmanager://projects/prod-123456/secrets/byok-acme-openai", "service-account-for-the-whole-marketing-department",
}

func TestLooksLikeKey(t *testing.T) {
	for name, key := range keys {
		if !screen.LooksLikeKey(key) {
			t.Errorf("%s: %q passes as a name", name, key)
		}
		if !screen.IDLooksLikeKey(key) {
			t.Errorf("%s: %q passes as an identifier", name, key)
		}
		if screen.IsName(key) || strings.Contains(screen.Quote(key), key) || strings.Contains(screen.Path("a."+key, "."), key) {
			t.Errorf("%s: %q is repeated", name, key)
		}
	}
	for _, name := range names {
		if screen.LooksLikeKey(name) {
			t.Errorf("%q is refused as a name", name)
		}
		if screen.IDLooksLikeKey(name) {
			t.Errorf("%q is refused as an identifier", name)
		}
	}
	// A number that is a key at some vendors is an identifier elsewhere.
	for _, id := range []string{
		"0123456789abcdef0123456789abcdee", "chatcmpl-AbCdEf0123456789GhIjKlMnOpQrS", "da39a3ee5e6b4b0d3255bfef95601890afd80709",
		"user_02e509c789964a7ea8736978a43525956ef40397be9033abf9fd2badfe68c9e3_account__session_3f1e8a52-9c1d-4b7e-8a52-9c1d4b7e8a52",
		"thread_AbCdEf0123456789GhIjKlMn", "org-AbCdEf0123456789GhIjKlMn",
	} {
		if screen.IDLooksLikeKey(id) {
			t.Errorf("%q is refused as an identifier", id)
		}
	}
	if !screen.LooksLikeKey("0123456789abcdef0123456789abcdee") {
		t.Error("32 hexadecimal digits pass as a name")
	}
}

func TestNames(t *testing.T) {
	for text, want := range map[string]string{
		"gpt-4o": `"gpt-4o"`, "anthropic/claude-sonnet-4.5:beta": `"anthropic/claude-sonnet-4.5:beta"`, "": "of this name", "a b": "of this name",
		"<script>": "of this name", "ünlü": "of this name", "@cf/x": "of this name", strings.Repeat("a", 80): `"` + strings.Repeat("a", 80) + `"`,
		strings.Repeat("a", 81): "of this name", keys["Anthropic"]: "of this name", `a"b`: "of this name", "a\nb": "of this name",
	} {
		if got := screen.Quote(text); got != want {
			t.Errorf("Quote(%q) = %s, want %s", text, got, want)
		}
	}
	for path, want := range map[string]string{
		"messages[0].content": "messages[0].content", "a." + keys["xAI"] + ".b": "a.*.b", "a[" + keys["xAI"] + "].b": "a[*].b", "a b.c": "*.c",
		keys["JWT"]: "*",
	} {
		if got := screen.Path(path, "."); got != want {
			t.Errorf("Path(%q) = %q, want %q", path, got, want)
		}
	}
	if got := screen.Path("/v1/byok/config/"+keys["Groq"], "/"); got != "/v1/byok/config/*" {
		t.Errorf("Path of a URL = %q", got)
	}
}

// The time grows linearly, whatever the text consists of: eight times the text may take up to thirty times as long, not
// sixty-four.
func TestScreenIsLinear(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const size = 1 << 15
	for _, piece := range []string{"sk-", "xai-", "AQ.", "eyJ", "a", "aB3", "a:", "bearer ", "-----BEGIN", "./"} {
		cost := func(n int) time.Duration {
			text := strings.Repeat(piece, n/len(piece))
			least := time.Hour
			for range 5 {
				start := processorTime(t)
				_ = screen.LooksLikeKey(text)
				least = min(least, processorTime(t)-start)
			}
			return least
		}
		if one, eight := cost(size), cost(8*size); eight > 30*max(one, time.Millisecond) {
			t.Errorf("of %q: %v for %d bytes, %v for eight times as many", piece, one, size, eight)
		}
	}
}

// processorTime returns the processor time of this thread, which excludes other processes.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	const thread = 1 // RUSAGE_THREAD
	if err := syscall.Getrusage(thread, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func BenchmarkLooksLikeKey(b *testing.B) {
	for _, name := range []string{"gpt-4o-2024-08-06", "3f1e8a52-9c1d-4b7e-8a52-9c1d4b7e8a52", "accounts/fireworks/models/llama-v3p1-405b-instruct"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_ = screen.LooksLikeKey(name)
			}
		})
	}
}
