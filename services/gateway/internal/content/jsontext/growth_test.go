package jsontext_test

import (
	"testing"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestRewriteGrowsLinearly(t *testing.T) {
	same := jsontext.Change{String: func(string) (string, bool) { return "", false }, Number: func(string) (string, bool) { return "", false }}
	all := jsontext.Change{String: func(text string) (string, bool) { return text + "x", true }, Number: func(digits string) (string, bool) { return digits, true }}
	growth.Linear(t, growth.Each(growth.JSON, func(text []byte) {
		_ = jsontext.Rewrite(text, same)
		_ = jsontext.Rewrite(text, all)
	})...)
}
