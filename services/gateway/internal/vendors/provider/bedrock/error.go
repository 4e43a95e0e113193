package bedrock

import (
	"encoding/json"
	"net/http"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

// failure is an error document.
type failure struct {
	// Type is the exception's name where no header has it.
	Type    string `json:"__type"`
	Message string `json:"message"`
	// OriginalStatus is that of the model, behind the status of the answer.
	OriginalStatus int `json:"originalStatusCode"`
}

// classes are the classes of the exceptions, by their names in lower case without "exception".
var classes = map[string]apierr.Class{
	"throttling": apierr.ClassRateLimit, "toomanyrequests": apierr.ClassRateLimit, "servicequotaexceeded": apierr.ClassRateLimit,
	"modelnotready": apierr.ClassTransient, "modeltimeout": apierr.ClassTransient, "modelerror": apierr.ClassTransient,
	"modelstreamerror": apierr.ClassTransient, "conflict": apierr.ClassTransient,
	"internalserver": apierr.ClassServerError, "internalfailure": apierr.ClassServerError, "serviceunavailable": apierr.ClassServerError,
	"accessdenied": apierr.ClassAuth, "unrecognizedclient": apierr.ClassAuth, "invalidclienttokenid": apierr.ClassAuth,
	"expiredtoken": apierr.ClassAuth, "missingauthenticationtoken": apierr.ClassAuth, "incompletesignature": apierr.ClassAuth,
	"invalidsignature": apierr.ClassAuth, "signaturedoesnotmatch": apierr.ClassAuth, "optinrequired": apierr.ClassAuth,
	"validation": apierr.ClassPolicy, "resourcenotfound": apierr.ClassPolicy,
}

// classify classifies an error by its exception, or else by the status. A stream of Anthropic's own events has errors in
// Anthropic's form.
func classify(e *provider.Error, header http.Header, body []byte) {
	var doc failure
	_ = json.Unmarshal(body, &doc)
	e.Code, e.Text = bareName(header.Get("X-Amzn-Errortype")), doc.Message
	if e.Code == "" {
		e.Code = bareName(doc.Type)
	}
	if e.Code == "" && e.Status < http.StatusBadRequest && wire.ParseView(body).Get("error.type").Exists() {
		anthropic.Classify(e, header, body)
		return
	}
	kind := strings.TrimSuffix(strings.ToLower(e.Code), "exception")
	class, known := classes[kind]
	if !known {
		class = byStatus(e.Status)
	}
	e.Class = class
	text := strings.ToLower(e.Text)
	switch {
	case (kind == "modelerror" || kind == "modelstreamerror") && doc.OriginalStatus >= http.StatusBadRequest:
		e.Class = byStatus(doc.OriginalStatus)
	case e.Class == apierr.ClassPolicy && overflow(text):
		e.Class = apierr.ClassContextOverflow
	case e.Class == apierr.ClassPolicy && strings.Contains(text, "blocked by content filtering policy"):
		e.Class = apierr.ClassContentPolicy
	case e.Class == apierr.ClassPolicy && strings.Contains(text, "on-demand throughput isn"):
		e.Text = needsProfile + e.Text
	case e.Class == apierr.ClassRateLimit && strings.Contains(text, "per day"):
		e.RetryAfter = wire.MaxRetryAfter
	}
}

// needsProfile says what to do about a model that can be called only by a profile.
const needsProfile = "set upstream of the model in the policy to the ID or ARN of an inference profile, such as eu. before the model's own ID: "

// bareName returns the name of an exception, which may have a namespace before it and an address behind it.
func bareName(name string) string {
	name, _, _ = strings.Cut(name, ":")
	return name[strings.LastIndexByte(name, '#')+1:]
}

func overflow(text string) bool {
	for _, part := range []string{
		"input is too long", "too many input tokens", "expected maxlength:", "exceed model maximum", "exceeds model maximum",
		"prompt is too long", "exceed context limit", "maximum context length", "exceeds the maximum number of tokens",
	} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// byStatus returns the class of a status. One below 400 is that of an error inside an answer that began well (0 in a
// stream), or a redirect, which the vendor doesn't send.
func byStatus(status int) apierr.Class {
	switch {
	case status == http.StatusTooManyRequests:
		return apierr.ClassRateLimit
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return apierr.ClassAuth
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusFailedDependency, status == http.StatusGatewayTimeout:
		return apierr.ClassTransient
	case status >= http.StatusInternalServerError, status < http.StatusBadRequest:
		return apierr.ClassServerError
	}
	return apierr.ClassPolicy
}
