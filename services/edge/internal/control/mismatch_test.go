package control

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/alert"
)

// rulesBody is a body with fields at each depth.
type rulesBody struct {
	Organization string          `json:"organization_id"`
	Rules        *[]alert.Rule   `json:"rules"`
	Limit        maybe[quantity] `json:"limit"`
	ExpiresAt    *time.Time      `json:"expires_at"`
	inner
}

type inner struct {
	Overlap *int64 `json:"overlap_seconds"`
}

type quantity struct {
	Requests int `json:"requests"`
}

// A body that does not fit is refused with the path of the first place, and repeats no value.
func TestReadNamesPaths(t *testing.T) {
	for body, want := range map[string]string{
		`{"foo":1}`:     "foo: is not a field of this request; known fields: organization_id, rules, limit, expires_at, overlap_seconds",
		`{"expires":1}`: "expires: is not a field of this request; did you mean expires_at?",
		`{"overlap":1}`: "overlap: is not a field of this request; did you mean overlap_seconds?",
		`{"rules":[{"name":"a"},{"name":"a","foo":1}]}`:                                       "rules[1].foo: is not a field",
		`{"rules":[{"to":[{"channel":"slack"},{"channel":"slack","webhook_url":"canary"}]}]}`: "rules[0].to[1].webhook_url: is not a field",
		`{"rules":[{"to":[{"channel":"in_app"},{"channel":7}]}]}`:                             "rules[0].to[1].channel: has the wrong type",
		`{"rules":[{"types":["a",{"canary":1}]}]}`:                                            "rules[0].types[1]: has the wrong type",
		`{"rules":[{},"canary"]}`:                                                             "rules[1]: has the wrong type",
		`{"rules":{"canary":1}}`:                                                              "rules: has the wrong type",
		`{"rules":[{"where":"canary"}]}`:                                                      "rules[0].where: has the wrong type",
		`{"rules":[{"where":{"a":{"canary":[1]}},"foo":1}]}`:                                  "rules[0].foo: is not a field",
		`{"rules":[{"sk-ant-api03-Zx81canaryQw27Rt63":1}]}`:                                   "rules[0]: holds a name that is not a field",
		`{"rules":[{"` + strings.Repeat("canary", 100) + `":1}]}`:                             "rules[0]: holds a name that is not a field",
		`{"limit":{"requests":"canary"}}`:                                                     "limit.requests: has the wrong type",
		`{"limit":{"foo":1}}`:                                                                 "limit.foo: is not a field of this request; known fields: requests",
		`{"limit":[1]}`:                                                                       "limit: has the wrong type",
		`{"overlap_seconds":1.5}`:                                                             "overlap_seconds: has the wrong type",
		`{"expires_at":"canary"}`:                                                             "expires_at: has the wrong type",
		`{"Inner":{}}`:                                                                        "Inner: is not a field",
		`{"foo":1,"rules":7}`:                                                                 "foo: is not a field",
		`["canary"]`:                                                                          "body: has the wrong type",
		`{"rules":[]}{"foo":1}`:                                                               "body: must be one JSON object",
		`{"rules":`:                                                                           "body: must be one JSON object",
		`{"rules":[{"where":{"a":` + strings.Repeat("[", 250) + strings.Repeat("]", 250) + `}}]}`: "body: must be one JSON object",
	} {
		var into rulesBody
		err := read(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "PUT", "/", strings.NewReader(body)), &into)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%.100s: %v, want %s", body, err, want)
		}
	}
	for _, body := range []string{
		"", " ", `{}`, `null`, `{"limit":null,"rules":null,"overlap_seconds":3}`, `{"RULES":[{"name":"a","where":{"a":[1]}}],"limit":{"requests":1}}`,
	} {
		var into rulesBody
		if err := read(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "PUT", "/", strings.NewReader(body)), &into); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}
