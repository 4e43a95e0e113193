package apidoc

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// worthPacking is the number of bytes from which on a text is sent compressed: below it, a packet holds it anyway.
const worthPacking = 1400

// Fixed returns a handler that serves body, with an ETag, to every client: a text compressed to those that accept gzip
// (RFC 9110, section 12.5.3). body must not change afterwards. headers are pairs of name and value.
func Fixed(contentType string, body []byte, headers ...string) http.Handler {
	sum := sha256.Sum256(body)
	tag := hex.EncodeToString(sum[:16])
	plain := representation{etag: `"` + tag + `"`, body: func() []byte { return body }}
	packed := representation{etag: `"` + tag + `-gzip"`, coding: "gzip", body: sync.OnceValue(func() []byte { return pack(body) })}
	text := len(body) >= worthPacking && !strings.HasPrefix(contentType, "image/")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, chosen := w.Header(), plain
		if text {
			h.Add("Vary", "Accept-Encoding")
			if acceptsGzip(r.Header) {
				chosen = packed
			}
		}
		h.Set("ETag", chosen.etag)
		h.Set("Cache-Control", "public, max-age=60")
		if matches(r.Header.Get("If-None-Match"), chosen.etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", contentType)
		h.Set("X-Content-Type-Options", "nosniff")
		if chosen.coding != "" {
			h.Set("Content-Encoding", chosen.coding)
		}
		for i := 0; i+1 < len(headers); i += 2 {
			h.Set(headers[i], headers[i+1])
		}
		sent := chosen.body()
		h.Set("Content-Length", strconv.Itoa(len(sent)))
		_, _ = w.Write(sent) // The client may have disconnected.
	})
}

// representation is a form in which a body is sent.
type representation struct {
	etag, coding string
	body         func() []byte
}

// pack compresses a body.
func pack(body []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(body) // A buffer takes all.
	_ = z.Close()
	return out.Bytes()
}

// acceptsGzip reports whether a request names gzip among the codings that it accepts.
func acceptsGzip(h http.Header) bool {
	for coding := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return !refused(weight)
		}
	}
	return false
}

// refused reports whether a weight is 0: q=0, or that with decimals.
func refused(weight string) bool {
	value, found := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(weight, " ", "")), "q=")
	q, err := strconv.ParseFloat(value, 64)
	return found && (err != nil || q <= 0)
}

// matches reports whether an If-None-Match header (RFC 9110, section 13.1.2) matches an ETag.
func matches(header, etag string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == etag || tag == "*" {
			return true
		}
	}
	return false
}
