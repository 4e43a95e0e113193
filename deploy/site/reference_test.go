package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The reference has what the contracts and the code have.
func TestReferences(t *testing.T) {
	made, err := references(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"settings":   {"| `EDGE_LISTEN` |", "| `NOTIFY_HTTP_LISTEN` |", "| `GATEWAY_POLICY_FILE` |", "| `WEBHOOK_EGRESS_LEASE` |"},
		"routes":     {"| `POST /product/v1/ai/chat` | ai, agents, platform | `ai:chat:invoke` | `read` | `llm_requests` |"},
		"operations": {"| `POST /v1/mcp/servers` | ", "| `GET /v1/circuits` | service | ", "| `POST /v1/notify` | "},
		"errors":     {"| `rate_limited` | 429 | "},
		"metrics": {
			"| `switchyard.edge.duration` | Duration of requests", "| `notify.backlog` | ", "| `switchyard.gateway.events.oldest` | Age of",
			"| `gen_ai.client.inference.duration` | Time of one call", "| `gen_ai.client.inference.usage.input_tokens` | Tokens of input",
		},
	} {
		for _, line := range want {
			if !strings.Contains(string(made["reference/"+name+".md"]), "\n"+line) {
				t.Errorf("the reference of %s lacks %q", name, line)
			}
		}
	}
	listed := string(made["reference/metrics.md"])
	for _, file := range []string{"dashboards.yaml", "prometheus/rules.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, "deploy/observability", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, series := range regexp.MustCompile(`\b(?:switchyard|notify)_[a-z]+(?:_[a-z]+)+\b`).FindAllString(string(text), -1) {
			name := regexp.MustCompile(`(_(seconds|bytes|usd|ratio))?(_(total|bucket|sum|count))?$`).ReplaceAllString(series, "")
			if !strings.Contains(strings.ReplaceAll(listed, ".", "_"), "`"+name+"`") {
				t.Errorf("%s uses %s, which the reference of metrics lacks", file, series)
			}
		}
	}
}

// What alerts link to, by `deploy/README.md#section` in the rules, is a section of the page at the handbook's address.
func TestAlertsLeadToSections(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join(root, "deploy/observability/prometheus/rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	handbook, err := os.ReadFile(filepath.Join(root, "deploy/k8s/components/prometheus/handbook.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	page := s.byFile["deploy/README.md"]
	if !strings.Contains(string(handbook), "/docs/"+page.path+"\n") {
		t.Errorf("handbook.yaml does not name the page /docs/%s", page.path)
	}
	links := regexp.MustCompile(`runbook_url: deploy/README\.md#(\S+)`).FindAllSubmatch(rules, -1)
	if len(links) < 10 {
		t.Errorf("%d links of alerts", len(links))
	}
	for _, link := range links {
		if !page.has(string(link[1])) {
			t.Errorf("an alert leads to #%s, which is no section", link[1])
		}
	}
}
