// Package sigv4 verifies requests that are signed with AWS's Signature Version 4, as a service of AWS would. It is
// written from AWS's description alone ("Create a signed AWS API request"), so that it can't share a mistake with the
// library that signs.
package sigv4

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Key is the secret part of an access key.
type Key struct {
	Secret string
	// SessionToken belongs to a temporary key, which ends at Expires; both are zero for a permanent one.
	SessionToken string
	Expires      time.Time
}

// Options say what signatures must be for.
type Options struct {
	// Keys returns the key with an id.
	Keys func(id string) (Key, bool)
	// Service and Region are those of the scope; an empty one is any.
	Service, Region string
	// Now is the clock; time.Now by default.
	Now func() time.Time
	// escapesOnce is for paths as S3 and AWS's test vectors have them. All other services escape them twice.
	escapesOnce bool
}

// skew is how far the date of a signature may be from the clock.
const skew = 5 * time.Minute

// Errors of requests that AWS would refuse, with its own codes.
var (
	ErrMissing    = errors.New("MissingAuthenticationTokenException")
	ErrIncomplete = errors.New("IncompleteSignatureException")
	ErrUnknownKey = errors.New("UnrecognizedClientException")
	ErrExpired    = errors.New("ExpiredTokenException")
	ErrWrong      = errors.New("InvalidSignatureException")
)

// Require passes only requests with a valid signature to next.
func Require(o Options, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		if err == nil && len(body) > maxBody {
			err = fmt.Errorf("%w: the body is too large", ErrIncomplete)
		}
		if err == nil {
			_, err = o.Verify(r, body)
		}
		if err != nil {
			refuse(w, err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

const maxBody = 64 << 20

func refuse(w http.ResponseWriter, err error) {
	name, _, _ := strings.Cut(err.Error(), ":")
	w.Header().Set("X-Amzn-Errortype", name)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": err.Error()}) // A client that has left is the only error.
}

// Verify returns the id of the key that a request is signed with, or an error that wraps one of this package's.
func (o Options) Verify(r *http.Request, body []byte) (id string, err error) {
	a, err := parse(r.Header.Get("Authorization"))
	if err != nil {
		return "", err
	}
	at, err := o.date(r, a)
	if err != nil {
		return "", err
	}
	key, ok := o.Keys(a.id)
	switch {
	case !ok:
		return "", fmt.Errorf("%w: the access key is unknown", ErrUnknownKey)
	case r.Header.Get("X-Amz-Security-Token") != key.SessionToken:
		return "", fmt.Errorf("%w: the security token is not that of the key", ErrUnknownKey)
	case !key.Expires.IsZero() && !o.now().Before(key.Expires):
		return "", fmt.Errorf("%w: the key has ended", ErrExpired)
	}
	if err := signsEnough(r, a.signed); err != nil {
		return "", err
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	if declared := r.Header.Get("X-Amz-Content-Sha256"); declared != "" && declared != hash {
		return "", fmt.Errorf("%w: X-Amz-Content-Sha256 is not the hash of the body", ErrWrong)
	}
	want := signature(key.Secret, a, at, o.canonical(r, a.signed, hash))
	if !hmac.Equal([]byte(want), []byte(a.signature)) {
		return "", fmt.Errorf("%w: the signature does not match", ErrWrong)
	}
	return a.id, nil
}

func (o Options) now() time.Time {
	if o.Now != nil {
		return o.Now()
	}
	return time.Now()
}

// authorization is a parsed header Authorization.
type authorization struct {
	id, date, region, service, signature string
	signed                               []string // names of headers
}

const algorithm = "AWS4-HMAC-SHA256"

func parse(text string) (a authorization, err error) {
	if text == "" {
		return a, fmt.Errorf("%w: there is no header Authorization", ErrMissing)
	}
	parts, ok := strings.CutPrefix(text, algorithm+" ")
	if !ok {
		return a, fmt.Errorf("%w: want %s", ErrIncomplete, algorithm)
	}
	fields := map[string]string{}
	for part := range strings.SplitSeq(parts, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = value
	}
	scope := strings.Split(fields["Credential"], "/")
	if len(scope) != 5 || scope[4] != "aws4_request" {
		return a, fmt.Errorf("%w: want Credential=id/date/region/service/aws4_request", ErrIncomplete)
	}
	a = authorization{
		id: scope[0], date: scope[1], region: scope[2], service: scope[3], signature: fields["Signature"],
		signed: strings.Split(fields["SignedHeaders"], ";"),
	}
	if a.signature == "" || fields["SignedHeaders"] == "" || len(fields) != 3 {
		return a, fmt.Errorf("%w: want Credential, SignedHeaders and Signature", ErrIncomplete)
	}
	return a, nil
}

// date returns the time of a signature, if its scope is the wanted one.
func (o Options) date(r *http.Request, a authorization) (time.Time, error) {
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	switch {
	case err != nil:
		return at, fmt.Errorf("%w: want a header X-Amz-Date", ErrIncomplete)
	case at.Format("20060102") != a.date:
		return at, fmt.Errorf("%w: the date of the scope is not that of X-Amz-Date", ErrWrong)
	case at.Sub(o.now()).Abs() > skew:
		return at, fmt.Errorf("%w: the signature is of %s, more than 5 minutes away", ErrWrong, at.Format(time.RFC3339))
	case o.Service != "" && a.service != o.Service:
		return at, fmt.Errorf("%w: the scope should be to service %q", ErrWrong, o.Service)
	case o.Region != "" && a.region != o.Region:
		return at, fmt.Errorf("%w: the scope should be to region %q", ErrWrong, o.Region)
	}
	return at, nil
}

// signsEnough returns an error if a header that must be signed is not, or if the names are not in their form and order.
func signsEnough(r *http.Request, signed []string) error {
	if !slices.IsSorted(signed) || slices.ContainsFunc(signed, func(name string) bool { return name == "" || strings.ToLower(name) != name }) {
		return fmt.Errorf("%w: want SignedHeaders in lower case and sorted", ErrIncomplete)
	}
	if !slices.Contains(signed, "host") {
		return fmt.Errorf("%w: host must be signed", ErrIncomplete)
	}
	for name := range r.Header {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "x-amz-") && !slices.Contains(signed, lower) {
			return fmt.Errorf("%w: %s must be signed", ErrIncomplete, lower)
		}
	}
	return nil
}

func signature(secret string, a authorization, at time.Time, canonical string) string {
	sum := sha256.Sum256([]byte(canonical))
	scope := strings.Join([]string{a.date, a.region, a.service, "aws4_request"}, "/")
	text := strings.Join([]string{algorithm, at.Format("20060102T150405Z"), scope, hex.EncodeToString(sum[:])}, "\n")
	key := []byte("AWS4" + secret)
	for _, part := range []string{a.date, a.region, a.service, "aws4_request"} {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, text))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
