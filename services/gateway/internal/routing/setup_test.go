package routing

import (
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/price"
)

// now is the moment of these tests.
var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// wide is a policy with everything in it: hosts of one model, all operations,
// limits, features, regions.
const wide = `
default_model: {chat: one/big, vision: one/big, embeddings: one/vectors, images: three/paint}
default_goal: quality
providers:
  - name: one
    dialect: openai
    base_url: https://one.example
    regions: [us]
    tags: [zdr]
    prompt_cache_ttl: 5m
    default_model: {chat: small}
    models:
      - {name: big, operations: [chat, vision], features: [tools, parallel_tools, json_object, json_schema, image_urls], limits: {context: 100000, output: 8000}}
      - {name: small, operations: [chat], features: [json_object], limits: {context: 8000, output: 2000}}
      - {name: vectors, operations: [embeddings], dimensions: {min: 1, max: 1024}, limits: {input: 8000}}
      - {name: shared, operations: [chat]}
  - name: two
    dialect: anthropic
    base_url: https://two.example
    regions: [eu]
    tags: [zdr, local]
    prompt_cache_ttl: 5m
    models:
      - {name: wise, operations: [chat, vision], features: [tools, parallel_tools, json_schema], limits: {context: 200000, input: 150000, output: 64000}}
      - {name: shared, operations: [chat]}
  - name: three
    dialect: gemini
    base_url: https://three.example
    models:
      - {name: flash, features: []}
      - {name: paint, operations: [images], image_sizes: [1024x1024], image_tokens: 1000}
      - {name: easel, operations: [images], image_tokens: 2000}
      - {name: shared, operations: [chat]}
  - name: four
    dialect: cohere
    base_url: https://four.example
    models: [{name: embed, dimensions: {any_of: [256, 512]}}]
  - {name: any, dialect: openai, base_url: https://any.example}
goals:
  cost: [one/small, two/wise]
  latency: [three/flash, one/small, one/big, two/wise]
  quality: [two/wise, one/big, three/flash, [three/easel, three/paint]]
ladder:
  chat: [one/big, two/wise, three/flash]
  vision: [one/big, two/wise]
  embeddings: [four/embed]
  images: [three/easel]
`

const widePrices = `
providers:
  - provider: one
    models:
      - {model: big, effective_from: 2026-01-01, input_per_mtok_usd: "2", output_per_mtok_usd: "8"}
      - {model: small, effective_from: 2026-01-01, input_per_mtok_usd: "1", output_per_mtok_usd: "20"}
      - {model: small, effective_from: 2027-01-01, input_per_mtok_usd: "0.1", output_per_mtok_usd: "0.1"}
      - {model: shared, effective_from: 2026-01-01, input_per_mtok_usd: "3", output_per_mtok_usd: "3"}
  - provider: two
    models:
      - {model: wise, effective_from: 2026-01-01, input_per_mtok_usd: "5", output_per_mtok_usd: "5"}
      - {model: shared, effective_from: 2026-01-01, input_per_mtok_usd: "2", output_per_mtok_usd: "2"}
`

func read(tb testing.TB, text string) *Policy {
	tb.Helper()
	p, err := Parse(Source{Text: []byte(text)}, Source{})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func prices(tb testing.TB) *price.Table {
	tb.Helper()
	rows, err := price.Parse([]byte(widePrices))
	if err != nil {
		tb.Fatal(err)
	}
	table, err := price.NewTable(rows)
	if err != nil {
		tb.Fatal(err)
	}
	return table
}

// seen is what a test says was seen of the targets.
type seen struct {
	latency map[Target]time.Duration
	down    map[Target]bool
}

func (s seen) Latency(t Target) (time.Duration, bool) {
	d, ok := s.latency[t]
	return d, ok
}

func (s seen) Available(t Target, _ string) bool { return !s.down[t] }

// names writes the candidates of a plan; one that stands in for what was asked
// for has a tilde.
func names(plan Plan) string {
	var all []string
	for _, c := range plan.Candidates {
		text := c.String()
		if c.Substitute {
			text = "~" + text
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func left(plan Plan) string {
	var all []string
	for _, e := range plan.Excluded {
		all = append(all, e.String())
	}
	return strings.Join(all, " ")
}
