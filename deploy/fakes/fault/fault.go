// Package fault injects faults into the fakes. A script is a list of rules: which calls a rule matches, how many
// calls it is for, and what happens to them. Every fake owns one Injector, offers it over HTTP under /_script and
// /_calls, and passes each call through it.
package fault

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	maxRules = 10_000
	maxWait  = 10 * time.Minute
	maxMiB   = 1024
)

// Script is the body of POST /_script.
type Script struct {
	Rules []Rule `json:"rules"`
}

// Rule defines what happens to the calls that match.
type Rule struct {
	Match Match `json:"match"`
	// Times is how many calls the rule is for; 0 means for ever.
	Times  int    `json:"times"`
	Action Action `json:"action"`
}

// Match selects calls. An empty field accepts everything; "*" in Method, Path
// and header values stands for any run of characters, slashes included.
type Match struct {
	Method string            `json:"method,omitempty"`
	Path   string            `json:"path,omitempty"`
	Header map[string]string `json:"header,omitempty"`
	// Body must occur somewhere in the call's body.
	Body string `json:"body,omitempty"`
}

// Action is what happens to a call. Fields combine where that makes sense: a delay comes first, then the head, then
// the body. Milliseconds are at most ten minutes. An action that neither answers nor cuts leaves the answer to the
// fake and only changes how it is sent.
type Action struct {
	// Status answers with this status. Without Body the fake sends the text
	// that its vendor uses for that status.
	Status int `json:"status,omitempty"`
	// Body is the answer's body, or with ErrorAfterChunks the in-band error.
	Body    string            `json:"body,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// DelayMS is the wait before anything else happens.
	DelayMS int `json:"delay_ms,omitempty"`
	// Drop closes the connection without an answer.
	Drop bool `json:"drop,omitempty"`
	// Reset closes it with a TCP RST instead.
	Reset bool `json:"reset,omitempty"`
	// AfterBytes cuts after that many body bytes (by Reset: with an RST).
	AfterBytes *int `json:"after_bytes,omitempty"`
	// StallAfterChunks goes silent after that many stream events; 0 stalls
	// right after the head.
	StallAfterChunks *int `json:"stall_after_chunks,omitempty"`
	// ErrorAfterChunks sends the vendor's in-band error after that many stream
	// events, then ends the stream. Status chooses the kind of error.
	ErrorAfterChunks *int `json:"error_after_chunks,omitempty"`
	// SlowHeadMS writes the scripted status, headers and body directly, with this
	// pause after each byte of the head.
	SlowHeadMS int `json:"slow_head_ms,omitempty"`
	// SlowBodyMS pauses before each stream event, or each byte of other bodies.
	SlowBodyMS int `json:"slow_body_ms,omitempty"`
	// EndlessHeaders sends header lines until the client leaves (at most 1 GiB).
	EndlessHeaders bool `json:"endless_headers,omitempty"`
	// Redirect answers with this Location (status 302 unless given).
	Redirect string `json:"redirect,omitempty"`
	// RetryAfter is sent verbatim as Retry-After (status 429 unless given).
	RetryAfter string `json:"retry_after,omitempty"`
	// HalfClose shuts the sending side and keeps reading, without an answer.
	HalfClose bool `json:"half_close,omitempty"`
	// Informational is how many 103 answers come before the real one.
	Informational int `json:"informational,omitempty"`
	// FillerMB answers with this many MiB of zeros.
	FillerMB int `json:"filler_mb,omitempty"`
	// Gzip compresses the scripted body or filler: with FillerMB, a bomb.
	Gzip bool `json:"gzip,omitempty"`
	// Hostile names a Behaviour, which takes the place of everything but the delay.
	Hostile string `json:"hostile,omitempty"`
	// Answer is for the fake itself: the provider accepts text, tool calls and usage.
	Answer json.RawMessage `json:"answer,omitempty"`
}

// ParseScript reads a script and refuses unknown fields, so that a misspelt fault is an error.
func ParseScript(r io.Reader) (Script, error) {
	var s Script
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return Script{}, fmt.Errorf("parse script: %w", err)
	}
	if err := s.Validate(); err != nil {
		return Script{}, err
	}
	return s, nil
}

// Validate returns an error for the first rule that cannot be obeyed.
func (s Script) Validate() error {
	if len(s.Rules) > maxRules {
		return fmt.Errorf("script has %d rules, at most %d are kept", len(s.Rules), maxRules)
	}
	for i, rule := range s.Rules {
		if rule.Times < 0 {
			return fmt.Errorf("rule %d: times is negative", i)
		}
		if err := rule.Action.validate(); err != nil {
			return fmt.Errorf("rule %d: %w", i, err)
		}
	}
	return nil
}

func (a Action) validate() error {
	if a.Status != 0 && (a.Status < 200 || a.Status > 599) {
		return fmt.Errorf("status %d is not one of 200 to 599", a.Status)
	}
	limits := []struct {
		name string
		got  int
		most int
	}{
		{"delay_ms", a.DelayMS, int(maxWait.Milliseconds())},
		{"slow_head_ms", a.SlowHeadMS, int(maxWait.Milliseconds())},
		{"slow_body_ms", a.SlowBodyMS, int(maxWait.Milliseconds())},
		{"filler_mb", a.FillerMB, maxMiB},
		{"informational", a.Informational, 1_000_000},
		{"after_bytes", value(a.AfterBytes), maxMiB << 20},
		{"stall_after_chunks", value(a.StallAfterChunks), 1_000_000},
		{"error_after_chunks", value(a.ErrorAfterChunks), 1_000_000},
	}
	for _, l := range limits {
		if l.got < 0 || l.got > l.most {
			return fmt.Errorf("%s is %d, want 0 to %d", l.name, l.got, l.most)
		}
	}
	return nil
}

// answers reports whether the script gives the answer in the fake's place.
func (a Action) answers() bool {
	if a.ErrorAfterChunks != nil {
		return false
	}
	return a.Status != 0 || a.Body != "" || a.Redirect != "" || a.RetryAfter != "" || a.FillerMB > 0
}

// cuts reports whether the connection ends before any byte of an answer.
func (a Action) cuts() bool {
	return (a.Drop || a.Reset) && a.AfterBytes == nil
}

// StatusCode returns the status of a scripted answer.
func (a Action) StatusCode() int {
	switch {
	case a.Status != 0:
		return a.Status
	case a.Redirect != "":
		return http.StatusFound
	case a.RetryAfter != "":
		return http.StatusTooManyRequests
	default:
		return http.StatusOK
	}
}

func value(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}
