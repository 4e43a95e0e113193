package delivery

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"switchyard.dev/services/platform/apierr"
)

// maxHeaderBytes bounds the names and values of all custom headers together. Their number and the length of each
// value are limited by the contract.
const maxHeaderBytes = 16 << 10

// reservedHeaders are controlled by HTTP, by proxies, or by the service itself. A customer who could set them could
// smuggle requests, forge an origin or reach a cloud's metadata service.
var reservedHeaders = []string{
	"Age", "Cache-Control", "Clear-Site-Data", "Connection", "Content-Encoding", "Content-Language",
	"Content-Length", "Content-Location", "Content-Type", "Expect", "Expires", "Forwarded", "Host", "Keep-Alive",
	"Metadata", "Metadata-Flavor", "Pragma", "Te", "Traceparent", "Tracestate", "Trailer", "Trailers",
	"Transfer-Encoding", "Upgrade", "User-Agent", "Warning", "X-Real-Ip",
}

var reservedPrefixes = []string{
	"Proxy-", "Webhook-", "X-Amz-", "X-Amzn-", "X-Aws-Ec2-Metadata-Token", "X-Azure-", "X-Fd-", "X-Forwarded-",
	"X-Gfe", "X-Goog-", "X-Google", "X-Webhook-",
}

// credentialNames and credentialParts identify headers whose values are secrets.
var (
	credentialNames = []string{"Authorization", "Cookie", "Set-Cookie"}
	credentialParts = []string{"token", "secret", "api-key", "apikey", "password"}
)

// splitHeaders checks custom headers and returns them in canonical form, with those that carry a credential in
// secret. Errors name the header, never a value.
func splitHeaders(custom map[string]string) (plain, secret map[string]string, err error) {
	checked, err := CheckHeaders(custom)
	if err != nil {
		return nil, nil, err
	}
	for name, value := range checked {
		into := &plain
		if CarriesCredential(name) {
			into = &secret
		}
		if *into == nil {
			*into = make(map[string]string)
		}
		(*into)[name] = value
	}
	return plain, secret, nil
}

// CheckHeaders checks custom headers and returns them by canonical name. Errors name the header, never a value.
func CheckHeaders(custom map[string]string) (map[string]string, error) {
	total, checked := 0, make(map[string]string, len(custom))
	for name, value := range custom {
		canonical := http.CanonicalHeaderKey(name)
		if rule := HeaderRule(name, value); rule != "" {
			if !httpguts.ValidHeaderFieldName(name) {
				canonical = "a name"
			}
			return nil, refuseHeader(canonical, rule)
		}
		if _, twice := checked[canonical]; twice {
			return nil, refuseHeader(canonical, "is given twice")
		}
		checked[canonical] = value
		total += len(name) + len(value)
	}
	return checked, CheckHeaderBytes(total)
}

// CheckHeaderBytes refuses custom headers whose names and values have more bytes together than are allowed.
func CheckHeaderBytes(total int) error {
	if total > maxHeaderBytes {
		return refuseHeader("all", fmt.Sprintf("together are over %d bytes", maxHeaderBytes))
	}
	return nil
}

// HeaderRule returns the rule that a custom header breaks, or "".
func HeaderRule(name, value string) string {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return "is not a valid header name"
	case reserved(dashed(name)):
		return "is reserved"
	case !httpguts.ValidHeaderFieldValue(value) || !printable(value):
		return "has a value with control or non-ASCII characters"
	}
	return ""
}

// dashed returns the canonical name that many receivers (CGI, WSGI, Rack) read: they treat "_" and "-" alike.
func dashed(name string) string { return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")) }

// HeaderSealedFor returns the owner to which the sealed value of an endpoint's header is bound.
func HeaderSealedFor(endpoint ID, name string) string { return endpoint.String() + "/headers/" + name }

func refuseHeader(name, rule string) error {
	return apierr.New(apierr.KindInvalid, ReasonHeaderNotAllowed, "custom_headers: "+name+" "+rule)
}

func reserved(canonical string) bool {
	return slices.Contains(reservedHeaders, canonical) ||
		slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(canonical, prefix) })
}

// CarriesCredential reports whether the value of a header is likely to be a secret, by its name.
func CarriesCredential(name string) bool {
	canonical := dashed(name)
	lower := strings.ToLower(canonical)
	return slices.Contains(credentialNames, canonical) || slices.Contains(strings.Split(lower, "-"), "auth") ||
		slices.ContainsFunc(credentialParts, func(part string) bool { return strings.Contains(lower, part) })
}

// printable reports whether value is printable ASCII, spaces and tabs. Receivers differ in how they decode other
// bytes.
func printable(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return (r < ' ' && r != '\t') || r > '~' })
}
