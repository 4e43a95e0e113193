package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/content/redact"
)

// Token numbers stand for text: none is left, and the rest of the request stays as it was.
func TestTokens(t *testing.T) {
	for in, want := range map[string]string{
		`{"model":"m", "input":[1,22,333] ,"dimensions":7}`: `{"model":"m", "input":"[tokens, 3 of them]" ,"dimensions":7}`,
		`{"input":[[1,2],[ 333 ]],"model":"m"}`:             `{"input":"[tokens, 3 of them]","model":"m"}`,
		`{"inp\u0075t":[1]}`:                                `{"inp\u0075t":"[tokens, 1 of them]"}`,
		`{"input":["a","1"]}`:                               `{"input":["a","1"]}`,
		`{"input":"a"}`:                                     `{"input":"a"}`,
		`{"input":[]}`:                                      `{"input":[]}`,
		`{"input":[[]]}`:                                    `{"input":"[tokens, 1 of them]"}`,
		`{"x":{"input":[1]}}`:                               `{"x":{"input":[1]}}`,
		``:                                                  ``,
	} {
		found := redact.Kinds{}
		got := string(redact.Tokens([]byte(in), found))
		if got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
		if replaced := strings.Contains(want, "tokens"); found[redact.KindTokens] != replaced {
			t.Errorf("%s: found %v, want tokens %t", in, found, replaced)
		}
		if in != "" && !json.Valid([]byte(got)) {
			t.Errorf("%s became %s, which is not JSON", in, got)
		}
	}
}
