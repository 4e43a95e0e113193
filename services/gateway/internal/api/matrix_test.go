package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/platform/apierr"
)

// faces are the faces that return errors, with their streams.
var faces = []string{"http", "http-stream", "grpc", "openai", "openai-stream", "anthropic", "anthropic-stream"}

// matrixPolicy returns a policy with a vendor for each row and face, since one that has failed is not called for a
// while, and with no substitute for any of them. A row's name is its dialect and a number.
func matrixPolicy(rows ...string) string {
	var text strings.Builder
	text.WriteString("default_model: keyless/nobody\nproviders:\n  - {name: keyless, dialect: openai, base_url: %[1]s, key_file: absent.key, models: [nobody]}\n")
	for _, row := range rows {
		dialect, _, _ := strings.Cut(row, "-")
		for _, face := range faces {
			fmt.Fprintf(&text, "  - {name: %s-%s, dialect: %s, base_url: %%[1]s, key_file: first.key}\n", row, face, dialect)
		}
	}
	return text.String()
}

// faceError is an error in the form of a face.
type faceError struct {
	status     int
	code       string // ours; empty where the face has its own
	class      apierr.Class
	retryable  bool
	retryAfter int
	text       string
}

// errorsOfFaces sends a request over each face, to the row's vendor or to one without a key, and returns the errors.
// settings are fields of the contract, as JSON.
func (b *bench) errorsOfFaces(t *testing.T, row, settings string) map[string]faceError {
	t.Helper()
	model := func(face string) string {
		if row == "keyless" {
			return "keyless/nobody"
		}
		return row + "-" + face + "/m"
	}
	if strings.HasPrefix(row, "cohere") {
		return map[string]faceError{"http": document(t, b.post(t, "/v1/embeddings", `{"model":"`+model("http")+`","allow_substitution":`+strconv.FormatBool(settings == "")+`,"input":["x"]}`))}
	}
	beside := ""
	if settings != "" {
		beside, settings = `"switchyard":{`+settings+`},`, settings+","
	}
	all := map[string]faceError{"grpc": b.grpcError(t, model("grpc"), settings == "")}
	for _, stream := range []string{"", "-stream"} {
		ask := func(face, ours, message string) string {
			return fmt.Sprintf(`{"model":%q,"stream":%v,%s%s}`, model(face+stream), stream != "", ours, message)
		}
		all["http"+stream] = document(t, b.chat(t, ask("http", settings, messages)))
		all["openai"+stream] = within(t, b.say(t, "POST", completions, ask("openai", beside, messages)))
		all["anthropic"+stream] = within(t, b.say(t, "POST", messagesPath, ask("anthropic", beside, anthropicMsg)))
	}
	return all
}

func (b *bench) grpcError(t *testing.T, model string, substitution bool) faceError {
	t.Helper()
	client, md := b.client()
	_, err := client.Chat(metadata.NewOutgoingContext(t.Context(), md), &gatewayv1.LlmRequest{
		Model: model, Messages: user("hi"), AllowSubstitution: &substitution,
	})
	e := apierr.From(err)
	if e == nil {
		t.Fatal("no error over gRPC")
	}
	return faceError{e.Kind.HTTPStatus(), string(e.Reason), e.ErrorClass(), e.ErrorClass().Retryable(), int(e.RetryAfter / time.Second), e.Text}
}

// document decodes an error of the contract.
func document(t *testing.T, a answer) faceError {
	t.Helper()
	var d apierr.Document
	if err := json.Unmarshal([]byte(a.body), &d); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	if after := a.header.Get("Retry-After"); after != "" && after != strconv.Itoa(d.RetryAfter) {
		t.Errorf("Retry-After is %s beside %s", after, a.body)
	}
	return faceError{a.status, string(d.Error), d.ErrorClass, d.Retryable, d.RetryAfter, d.Reason}
}

// within decodes an error in an SDK's form, with our fields in it.
func within(t *testing.T, a answer) faceError {
	t.Helper()
	var d struct {
		Error struct {
			apierr.Document

			Error   string `json:"error"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(a.body), &d); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	if d.Error.Message == "" || (a.header.Get("X-Should-Retry") == "false") == d.Error.Retryable {
		t.Errorf("X-Should-Retry %q beside %s", a.header.Get("X-Should-Retry"), a.body)
	}
	return faceError{a.status, "", d.Error.ErrorClass, d.Error.Retryable, d.Error.RetryAfter, d.Error.Message}
}

// outward returns the status and code of a request that no other vendor may serve.
func outward(class apierr.Class) (status int, code string) {
	switch class {
	case apierr.ClassContextOverflow:
		return http.StatusBadRequest, "context_overflow"
	case apierr.ClassContentPolicy:
		return http.StatusBadRequest, "content_policy"
	case apierr.ClassPolicy:
		return http.StatusBadRequest, "invalid_request"
	default:
		return http.StatusBadGateway, "provider_failed"
	}
}

// cell is a cell of the error matrix: a vendor's response and the class that it means.
type cell struct {
	dialect, fixture string
	status           int
	class            apierr.Class
	// after is the vendor's Retry-After; shown is the number of seconds that a caller receives, where the fixture
	// itself names a wait.
	after string
	shown int
}

func matrix() []cell {
	return []cell{
		{"openai", "timeout", 408, apierr.ClassTransient, "", 0},
		{"openai", "conflict", 409, apierr.ClassTransient, "", 0},
		{"openai", "gateway_timeout", 504, apierr.ClassTransient, "", 0},
		{"openai", "rate_limit", 429, apierr.ClassRateLimit, "7", 7},
		{"openai", "azure_retry_text", 429, apierr.ClassRateLimit, "", 7},
		{"openai", "slow_down", 503, apierr.ClassRateLimit, "", 0},
		{"openai", "mistral_tier", 429, apierr.ClassRateLimit, "", 0},
		{"openai", "server_error", 500, apierr.ClassServerError, "", 0},
		{"openai", "html_502", 502, apierr.ClassServerError, "", 0},
		{"openai", "overloaded", 503, apierr.ClassServerError, "30", 30},
		{"openai", "error_200", 200, apierr.ClassServerError, "", 0},
		{"openai", "invalid_key", 401, apierr.ClassAuth, "", 0},
		{"openai", "country", 403, apierr.ClassAuth, "", 0},
		{"openai", "insufficient_quota", 429, apierr.ClassAuth, "", 0},
		{"openai", "hard_limit", 429, apierr.ClassAuth, "", 0},
		{"openai", "unsupported_parameter", 400, apierr.ClassPolicy, "", 0},
		{"openai", "model_not_found", 404, apierr.ClassPolicy, "", 0},
		{"openai", "body_too_large", 413, apierr.ClassPolicy, "", 0},
		{"openai", "media_type", 415, apierr.ClassPolicy, "", 0},
		{"openai", "unprocessable", 422, apierr.ClassPolicy, "", 0},
		{"openai", "string_too_long", 400, apierr.ClassPolicy, "", 0},
		{"openai", "context_length", 400, apierr.ClassContextOverflow, "", 0},
		{"openai", "input_tokens", 400, apierr.ClassContextOverflow, "", 0},
		{"openai", "request_too_large", 429, apierr.ClassContextOverflow, "", 0},
		{"openai", "content_policy", 400, apierr.ClassContentPolicy, "", 0},
		{"openai", "azure_content_filter", 400, apierr.ClassContentPolicy, "", 0},

		{"anthropic", "timeout", 504, apierr.ClassTransient, "", 0},
		{"anthropic", "conflict", 409, apierr.ClassTransient, "", 0},
		{"anthropic", "rate_limit", 429, apierr.ClassRateLimit, "9", 9},
		{"anthropic", "api_error", 500, apierr.ClassServerError, "", 0},
		{"anthropic", "overloaded", 529, apierr.ClassServerError, "", 0},
		{"anthropic", "invalid_key", 401, apierr.ClassAuth, "", 0},
		{"anthropic", "permission", 403, apierr.ClassAuth, "", 0},
		{"anthropic", "billing", 402, apierr.ClassAuth, "", 0},
		{"anthropic", "spend_limit", 429, apierr.ClassAuth, "", 0},
		{"anthropic", "credit", 400, apierr.ClassAuth, "", 0},
		{"anthropic", "invalid_request", 400, apierr.ClassPolicy, "", 0},
		{"anthropic", "not_found", 404, apierr.ClassPolicy, "", 0},
		{"anthropic", "too_large", 413, apierr.ClassPolicy, "", 0},
		{"anthropic", "prompt_too_long", 400, apierr.ClassContextOverflow, "", 0},
		{"anthropic", "prompt_length", 400, apierr.ClassContextOverflow, "", 0},
		{"anthropic", "context_limit", 400, apierr.ClassContextOverflow, "", 0},
		{"anthropic", "content_filter", 400, apierr.ClassContentPolicy, "", 0},

		{"gemini", "deadline", 504, apierr.ClassTransient, "", 0},
		{"gemini", "quota", 429, apierr.ClassRateLimit, "", 37},
		{"gemini", "relay_503_of_429", 503, apierr.ClassRateLimit, "", 0},
		{"gemini", "internal", 500, apierr.ClassServerError, "", 0},
		{"gemini", "overloaded", 503, apierr.ClassServerError, "", 0},
		{"gemini", "malformed_call", 200, apierr.ClassServerError, "", 0},
		{"gemini", "invalid_key", 400, apierr.ClassAuth, "", 0},
		{"gemini", "service_disabled", 403, apierr.ClassAuth, "", 0},
		{"gemini", "region", 400, apierr.ClassAuth, "", 0},
		{"gemini", "invalid", 400, apierr.ClassPolicy, "", 0},
		{"gemini", "not_found", 404, apierr.ClassPolicy, "", 0},
		{"gemini", "overflow", 400, apierr.ClassContextOverflow, "", 0},
		{"gemini", "payload", 400, apierr.ClassContextOverflow, "", 0},
		{"gemini", "blocked", 200, apierr.ClassContentPolicy, "", 0},

		{"cohere", "cancelled", 499, apierr.ClassTransient, "", 0},
		{"cohere", "timeout", 504, apierr.ClassTransient, "", 0},
		{"cohere", "rate_limit", 429, apierr.ClassRateLimit, "3", 3},
		{"cohere", "too_many_tokens_429", 429, apierr.ClassRateLimit, "", 0},
		{"cohere", "internal", 500, apierr.ClassServerError, "", 0},
		{"cohere", "unavailable", 503, apierr.ClassServerError, "", 0},
		{"cohere", "invalid_key", 401, apierr.ClassAuth, "", 0},
		{"cohere", "payment", 402, apierr.ClassAuth, "", 0},
		{"cohere", "invalid_token", 498, apierr.ClassAuth, "", 0},
		{"cohere", "input_type", 400, apierr.ClassPolicy, "", 0},
		{"cohere", "unprocessable", 422, apierr.ClassPolicy, "", 0},
		{"cohere", "too_many_tokens", 400, apierr.ClassContextOverflow, "", 0},
		{"cohere", "safety", 400, apierr.ClassContentPolicy, "", 0},
	}
}

// A vendor's response becomes error, error_class, retryable, retry_after and reason of every face, whole and streamed:
// the error matrix, row by row.
func TestErrorMatrix(t *testing.T) {
	var names []string
	for i, c := range matrix() {
		names = append(names, fmt.Sprint(c.dialect, "-", i))
	}
	b := setupWith(t, matrixPolicy(names...))
	for i, c := range matrix() {
		t.Run(c.dialect+"/"+c.fixture, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "vendors", "provider", c.dialect, "testdata", "errors", c.fixture+".json"))
			if err != nil {
				t.Fatal(err)
			}
			header := http.Header{"Content-Type": {"application/json"}}
			if c.after != "" {
				header.Set("Retry-After", c.after)
			}
			b.vendor.fail(c.status, header, string(text))
			status, code := outward(c.class)
			for face, got := range b.errorsOfFaces(t, names[i], `"allow_substitution":false`) {
				if c.status == http.StatusOK && strings.HasSuffix(face, "-stream") {
					continue // A whole answer is not a stream; see the dialects' own tests.
				}
				want := faceError{status, code, c.class, c.class.Retryable(), c.shown, got.text}
				if got.code == "" {
					want.code = ""
				}
				if got.text == "" || got != want {
					t.Errorf("%s: %+v\nwant %+v", face, got, want)
				}
			}
		})
	}
}

// The rules 1 to 5 of the interface's Errors section, on every face.
func TestErrorRules(t *testing.T) {
	b := setupWith(t, matrixPolicy("openai-1", "openai-2", "openai-4", "openai-5"))
	const down = `{"error":{"message":"the vendor's own words","type":"server_error"}}`
	asJSON := http.Header{"Content-Type": {"application/json"}}
	limited := http.Header{"Content-Type": {"application/json"}, "Retry-After": {"9"}}
	for _, rule := range []struct {
		name, row, settings string
		before              func()
		want                faceError
	}{
		{
			"1: rate limited", "openai-1", "", func() { b.vendor.fail(429, limited, `{"error":{"message":"slow","type":"rate_limit_error"}}`) },
			faceError{429, "rate_limited", apierr.ClassRateLimit, true, 9, "rate limited"},
		},
		{
			"2: nobody serves", "openai-2", "", func() { b.vendor.fail(500, asJSON, down) },
			faceError{503, "all_providers_failed", apierr.ClassTransient, true, 2, "every provider failed"},
		},
		{
			"3: no key", "keyless", "", func() {},
			faceError{503, "missing_keys", apierr.ClassAuth, false, 0, "no provider configured (missing keys)"},
		},
		{
			"4: no substitution", "openai-4", `"allow_substitution":false`, func() { b.vendor.fail(500, asJSON, down) },
			faceError{502, "provider_failed", apierr.ClassServerError, true, 0, ": status 500: the vendor's own words"},
		},
		{"5: suspended", "openai-5", "", func() {
			b.operate(t, suspendPath, `{}`)
			until(t, func() string {
				if a := b.chat(t, `{"model":"openai-5-http/m",`+messages+`}`); a.status != http.StatusForbidden {
					return a.body
				}
				return ""
			})
		}, faceError{403, "organization_suspended", apierr.ClassPolicy, false, 0, "suspended"}},
	} {
		t.Run(rule.name, func(t *testing.T) {
			rule.before()
			seen := b.vendor.count()
			for face, got := range b.errorsOfFaces(t, rule.row, rule.settings) {
				want := rule.want
				if strings.Contains(got.text, want.text) {
					want.text = got.text
				}
				if got.code == "" {
					want.code = ""
				}
				if got != want {
					t.Errorf("%s: %+v\nwant %+v", face, got, want)
				}
			}
			calls := b.vendor.count() - seen
			// A vendor that may not be called is not called; one that answers 500 is called once more.
			if want := map[byte]int{'1': 7, '2': 14, '3': 0, '4': 14, '5': 0}[rule.name[0]]; calls != want {
				t.Errorf("the vendor was called %d times, want %d", calls, want)
			}
		})
	}
}
