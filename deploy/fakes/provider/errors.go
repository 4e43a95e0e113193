package provider

import (
	"net/http"
	"strings"
)

// The error bodies of both vendors. Anthropic's face is /v1/messages, and
// whatever carries its version header; all else is OpenAI's.

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

func speaksAnthropic(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/v1/messages") || r.Header.Get("Anthropic-Version") != ""
}

// fail answers with the vendor's error; an empty message takes its usual text.
func fail(w http.ResponseWriter, r *http.Request, status int, message string) {
	writeJSON(w, status, vendorError(r, status, message))
}

func errorBody(r *http.Request, status int, _ string) (contentType, body string) {
	return "application/json", string(encode(vendorError(r, status, "")))
}

// streamError is what a vendor sends when it fails after the head of a stream.
func streamError(r *http.Request, status int, data string) string {
	if data == "" {
		data = string(encode(vendorError(r, status, "")))
	}
	if speaksAnthropic(r) {
		return string(event("error", []byte(data)))
	}
	return string(event("", []byte(data)))
}

func vendorError(r *http.Request, status int, message string) any {
	if speaksAnthropic(r) {
		kind, text := anthropicKind(status)
		if message == "" {
			message = text
		}
		return anthropicError{
			Type:      "error",
			Error:     anthropicErrorDetail{Type: kind, Message: message},
			RequestID: id("req_01", 22, []byte(r.URL.Path+message), "error"),
		}
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

// anthropicKind gives the vendor's error type and usual text for a status.
func anthropicKind(status int) (kind, text string) {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error", "invalid x-api-key"
	case http.StatusPaymentRequired:
		return "billing_error", "Your credit balance is too low to access the Anthropic API."
	case http.StatusForbidden:
		return "permission_error", "Your API key does not have permission to use the specified resource."
	case http.StatusNotFound:
		return "not_found_error", "Not found"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large", "Request exceeds the maximum size"
	case http.StatusTooManyRequests:
		return "rate_limit_error", "This request would exceed your account's rate limit. Please try again later."
	case http.StatusGatewayTimeout:
		return "timeout_error", "Request timed out"
	case 529:
		return "overloaded_error", "Overloaded"
	default:
		if status >= 500 {
			return "api_error", "Internal server error"
		}
		return "invalid_request_error", http.StatusText(status)
	}
}
