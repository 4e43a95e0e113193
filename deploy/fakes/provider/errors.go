package provider

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
)

// The error bodies of the vendors. Anthropic's face is /v1/messages and every call with its version header; Gemini's
// is /v1beta, and Bedrock's /model; all others are OpenAI's.

type openAIError struct {
	Error openAIErrorDetail `json:"error"`
}

type openAIErrorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

type anthropicError struct {
	Type      string               `json:"type"`
	Error     anthropicErrorDetail `json:"error"`
	RequestID string               `json:"request_id"`
}

type anthropicErrorDetail struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// geminiError is a google.rpc.Status.
type geminiError struct {
	Error geminiErrorDetail `json:"error"`
}

type geminiErrorDetail struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Status  string `json:"status"`
}

func speaksGemini(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/v1beta/") || strings.Contains(r.URL.Path, "/publishers/google/")
}

func speaksAnthropic(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/v1/messages") || strings.Contains(r.URL.Path, "/publishers/anthropic/") || r.Header.Get("Anthropic-Version") != ""
}

func speaksResponses(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/responses") }

// flatError returns the event of an error in a stream of the Responses API, which has the error's members at its top.
func flatError(data string) []byte {
	var failure openAIError
	if err := json.Unmarshal([]byte(data), &failure); err != nil || failure.Error.Message == "" {
		return []byte(data) // The script's own text.
	}
	return encode(struct {
		Type     string  `json:"type"`
		Sequence int     `json:"sequence_number"`
		Code     *string `json:"code"`
		Message  string  `json:"message"`
		Param    *string `json:"param"`
	}{"error", 0, failure.Error.Code, failure.Error.Message, failure.Error.Param})
}

// fail answers with the vendor's error; an empty message is replaced by its usual text.
func fail(w http.ResponseWriter, r *http.Request, status int, message string) {
	writeJSON(w, status, vendorError(r, status, message))
}

func errorBody(r *http.Request, status int, _ string) (contentType, body string) {
	return "application/json", string(encode(vendorError(r, status, "")))
}

// streamError returns what a vendor sends when it fails after the head of a stream.
func streamError(r *http.Request, status int, data string) string {
	if data == "" {
		data = string(encode(vendorError(r, status, "")))
	}
	if speaksBedrock(r) {
		return exceptionFrame(status, data)
	}
	if speaksAnthropic(r) {
		return string(event("error", []byte(data)))
	}
	if speaksResponses(r) {
		return string(event("error", flatError(data)))
	}
	return string(event("", []byte(data)))
}

func vendorError(r *http.Request, status int, message string) any {
	if speaksBedrock(r) {
		return bedrockError{errorTextOf(bedrockErrors, status, message).text}
	}
	if speaksAnthropic(r) {
		s := errorTextOf(anthropicErrors, status, message)
		return anthropicError{
			Type:      "error",
			Error:     anthropicErrorDetail{Type: s.kind, Message: s.text},
			RequestID: id("req_01", 22, []byte(r.URL.Path+s.text), "error"),
		}
	}
	if speaksGemini(r) {
		s := errorTextOf(geminiErrors, status, message)
		return geminiError{geminiErrorDetail{status, s.text, s.kind}}
	}
	detail := openAIKind(r, status)
	if message != "" {
		detail.Message = message
	}
	return openAIError{Error: detail}
}

func openAIKind(r *http.Request, status int) openAIErrorDetail {
	switch status {
	case http.StatusUnauthorized:
		return openAIErrorDetail{Message: "Incorrect API key provided.", Type: "invalid_request_error", Code: new("invalid_api_key")}
	case http.StatusForbidden:
		return openAIErrorDetail{Message: "Country, region, or territory not supported", Type: "request_forbidden", Code: new("unsupported_country_region_territory")}
	case http.StatusNotFound:
		return openAIErrorDetail{Message: "Invalid URL (" + r.Method + " " + r.URL.Path + ")", Type: "invalid_request_error"}
	case http.StatusTooManyRequests:
		return openAIErrorDetail{Message: "Rate limit reached for requests", Type: "requests", Code: new("rate_limit_exceeded")}
	case http.StatusServiceUnavailable:
		return openAIErrorDetail{Message: "The engine is currently overloaded, please try again later", Type: "server_error", Code: new("service_unavailable")}
	default:
		if status >= 500 {
			return openAIErrorDetail{Message: "The server had an error while processing your request. Sorry about that!", Type: "server_error"}
		}
		return openAIErrorDetail{Message: http.StatusText(status), Type: "invalid_request_error"}
	}
}

// errorText holds a vendor's name for a status, and its usual text.
type errorText struct{ kind, text string }

var anthropicErrors = map[int]errorText{
	http.StatusUnauthorized:          {"authentication_error", "invalid x-api-key"},
	http.StatusPaymentRequired:       {"billing_error", "Your credit balance is too low to access the Anthropic API."},
	http.StatusForbidden:             {"permission_error", "Your API key does not have permission to use the specified resource."},
	http.StatusNotFound:              {"not_found_error", "Not found"},
	http.StatusRequestEntityTooLarge: {"request_too_large", "Request exceeds the maximum size"},
	http.StatusTooManyRequests:       {"rate_limit_error", "This request would exceed your account's rate limit. Please try again later."},
	http.StatusInternalServerError:   {"api_error", "Internal server error"},
	http.StatusGatewayTimeout:        {"timeout_error", "Request timed out"},
	529:                              {"overloaded_error", "Overloaded"},
	0:                                {"invalid_request_error", ""},
}

var geminiErrors = map[int]errorText{
	http.StatusUnauthorized:        {"UNAUTHENTICATED", "Request had invalid authentication credentials."},
	http.StatusForbidden:           {"PERMISSION_DENIED", "The caller does not have permission"},
	http.StatusNotFound:            {"NOT_FOUND", "Requested entity was not found."},
	http.StatusTooManyRequests:     {"RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details."},
	http.StatusInternalServerError: {"INTERNAL", "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting"},
	http.StatusServiceUnavailable:  {"UNAVAILABLE", "The model is overloaded. Please try again later."},
	http.StatusGatewayTimeout:      {"DEADLINE_EXCEEDED", "Deadline expired before operation could complete."},
	0:                              {"INVALID_ARGUMENT", "Request contains an invalid argument."},
}

// errorTextOf returns the vendor's text for a status, else its text for 500 or, below 500, the one under 0. A
// message replaces the usual text.
func errorTextOf(of map[int]errorText, status int, message string) errorText {
	s, ok := of[status]
	switch {
	case ok:
	case status >= http.StatusInternalServerError:
		s = of[http.StatusInternalServerError]
	default:
		s = of[0]
	}
	s.text = cmp.Or(message, s.text, http.StatusText(status))
	return s
}
