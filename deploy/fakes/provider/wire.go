package provider

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strings"
)

// encode returns JSON as the vendors render it: without a newline, and with <, > and & unescaped.
func encode(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// Only raw JSON from a script or a schema can be invalid, and parsing checked it.
		return []byte("null")
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// id derives an identifier of n characters from the request, so that the same request gets the same one. kind makes
// the ids within one answer differ.
func id(prefix string, n int, request []byte, kind string) string {
	sum := sha256.Sum256(append([]byte(kind+"\x00"), request...))
	digits := new(big.Int).SetBytes(sum[:]).Text(62)
	return prefix + strings.Repeat("0", max(0, n-len(digits))) + digits[:min(n, len(digits))]
}

func requestID(request []byte) string {
	sum := sha256.Sum256(request)
	return "req_" + hex.EncodeToString(sum[:16])
}

// fingerprint returns the id of the fictitious backend that serves a model.
func fingerprint(model string) string {
	sum := sha256.Sum256([]byte(model))
	return "fp_" + hex.EncodeToString(sum[:5])
}

// events writes server-sent events, each flushed on its own.
type events struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func startEvents(w http.ResponseWriter) events {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	return events{w: w, rc: http.NewResponseController(w)}
}

// send writes one event; name may be empty. It reports whether the client is still connected.
func (e events) send(name string, data []byte) bool {
	if _, err := e.w.Write(event(name, data)); err != nil {
		return false
	}
	// A recorder in a test cannot flush, and doesn't need to.
	_ = e.rc.Flush()
	return true
}

func event(name string, data []byte) []byte {
	if name == "" {
		return fmt.Appendf(nil, "data: %s\n\n", data)
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, data)
}
