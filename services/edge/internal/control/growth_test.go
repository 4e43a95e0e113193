package control

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestReadPageGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around("cursor=", growth.Text, ""), growth.Text...)
	inputs = append(inputs, growth.Around("organization_id=", growth.Text, "")...)
	inputs = append(inputs, growth.Number("parameters", "limit=1", "&a#=b", ""), growth.Repeat("one parameter", "limit=1", "&limit=1", ""))
	growth.Linear(t, growth.EachText(inputs, func(query string) {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.URL = &url.URL{Path: "/", RawQuery: query}
		_, _, _ = readPage[place](r, "organization_id")
	})...)
}

func TestReadGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around(`{"rules":`, growth.JSON, "}"), growth.JSON...)
	inputs = append(inputs, growth.Around(`{"organization_id":`, growth.ValidJSON, "}")...)
	inputs = append(inputs, growth.Number("unknown members", "{", `"a#":1,`, `"z":1}`), growth.Repeat("one member", "{", `"organization_id":"a",`, `"organization_id":"b"}`))
	inputs = append(inputs, growth.Repeat("one rule", `{"rules":[`, `{"name":"a","to":[{"channel":"slack"}]},`, `{"foo":1}]}`))
	growth.Linear(t, growth.EachText(inputs, func(body string) {
		var into rulesBody
		_ = read(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(body)), &into)
	})...)
}
