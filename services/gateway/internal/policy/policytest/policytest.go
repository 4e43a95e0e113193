// Package policytest holds policies for the tests of packages that plan requests.
package policytest

import (
	"testing"

	"switchyard.dev/services/gateway/internal/policy"
)

// Small is a policy of three providers, and SmallExtra a file with one more.
const Small = `
default_model: box/small
default_goal: quality
providers:
  - {name: box, dialect: sandbox, models: [small, large]}
  - {name: alpha, dialect: openai, base_url: https://a.example, key_file: alpha.key, models: [m1, shared, {name: org/m2, upstream: m2-2026}]}
  - {name: beta, dialect: openai, base_url: https://b.example, key_file: /abs/beta.key, models: [shared, m3]}
goals:
  cost: [beta/m3, beta/shared, alpha/m1]
  quality: [alpha/m1, alpha/shared, beta/m3]
ladder: [alpha/m1, beta/m3]
`

// SmallExtra is a file of one more provider.
const SmallExtra = `{"providers": [{"name": "local", "dialect": "openai", "base_url": "http://127.0.0.1:11434", "key_file": "local.key"}]}`

// Wide is a policy that uses every setting that affects planning.
const Wide = `
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

// Rules are data classifications for Wide's providers, to be appended to Wide.
const Rules = `
data_classification:
  - organizations: [acme, "acme-*-eu"]
    default: internal
    classifications:
      public: allow
      internal: {tags: [zdr]}
      personal: {regions: [eu, ch]}
      mixed: {providers: [one, two], tags: [local]}
      secret: deny
  - organizations: ["*"]
    classifications:
      public: allow
      personal: {providers: [one]}
`

// Parse parses a policy, or fails the test.
func Parse(tb testing.TB, text string) *policy.Policy {
	tb.Helper()
	p, err := policy.Parse(policy.Source{Text: []byte(text)}, policy.Source{})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// ParseSmall parses Small with SmallExtra; only relative key files of Small have a folder, /keys.
func ParseSmall(tb testing.TB) *policy.Policy {
	tb.Helper()
	p, err := policy.Parse(policy.Source{Text: []byte(Small), KeysDir: "/keys"}, policy.Source{Text: []byte(SmallExtra)})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}
