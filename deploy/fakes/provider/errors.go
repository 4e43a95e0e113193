package provider

import (
	"net/http"
	"strings"
)

// The error bodies of the vendors. Anthropic's face is /v1/messages, and
// whatever carries its version header; Gemini's is /v1beta; all else is OpenAI's.

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

func speaksGemini(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1beta/") }

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
	if speaksGemini(r) {
		kind, text := geminiKind(status)
		if message == "" {
			message = text
		}
		return geminiError{geminiErrorDetail{status, message, kind}}
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

// geminiKind gives the vendor's status name and usual text for a status.
func geminiKind(status int) (kind, text string) {
	switch status {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED", "Request had invalid authentication credentials."
	case http.StatusForbidden:
		return "PERMISSION_DENIED", "The caller does not have permission"
	case http.StatusNotFound:
		return "NOT_FOUND", "Requested entity was not found."
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details."
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE", "The model is overloaded. Please try again later."
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED", "Deadline expired before operation could complete."
	default:
		if status >= 500 {
			return "INTERNAL", "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting"
		}
		return "INVALID_ARGUMENT", "Request contains an invalid argument."
	}
}
