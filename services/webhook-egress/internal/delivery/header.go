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
	total := 0
	seen := make(map[string]bool, len(custom))
	for name, value := range custom {
		canonical := http.CanonicalHeaderKey(name)
		// Many receivers (CGI, WSGI, Rack) treat "_" and "-" alike.
		read := http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		total += len(name) + len(value)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return nil, nil, refuseHeader("a name", "is not a valid header name")
		case reserved(read):
			return nil, nil, refuseHeader(canonical, "is reserved")
		case !httpguts.ValidHeaderFieldValue(value) || !printable(value):
			return nil, nil, refuseHeader(canonical, "has a value with control or non-ASCII characters")
		case seen[canonical]:
			return nil, nil, refuseHeader(canonical, "is given twice")
		case total > maxHeaderBytes:
			return nil, nil, refuseHeader("all", fmt.Sprintf("together are over %d bytes", maxHeaderBytes))
		}
		seen[canonical] = true
		into := &plain
		if credential(read) {
			into = &secret
		}
		if *into == nil {
			*into = make(map[string]string)
		}
		(*into)[canonical] = value
	}
	return plain, secret, nil
}

func refuseHeader(name, rule string) error {
	return apierr.New(apierr.KindInvalid, ReasonHeaderNotAllowed, "custom_headers: "+name+" "+rule)
}

func reserved(canonical string) bool {
	return slices.Contains(reservedHeaders, canonical) ||
		slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(canonical, prefix) })
}

func credential(canonical string) bool {
	lower := strings.ToLower(canonical)
	return slices.Contains(credentialNames, canonical) || slices.Contains(strings.Split(lower, "-"), "auth") ||
		slices.ContainsFunc(credentialParts, func(part string) bool { return strings.Contains(lower, part) })
}

// printable reports whether value is printable ASCII, spaces and tabs. Receivers differ in how they decode other
// bytes.
func printable(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return (r < ' ' && r != '\t') || r > '~' })
}
