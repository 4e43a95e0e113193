package probe

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"switchyard.dev/services/platform/strictyaml"
)

// Bounds of a golden set.
const (
	maxCases      = 100
	maxPrompt     = 32 << 10
	maxOutput     = 4096
	defaultOutput = 256
)

// Kinds of checks.
const (
	CheckExact      = "exact"
	CheckContains   = "contains"
	CheckRegex      = "regex"
	CheckJSONSchema = "json_schema"
)

// Golden is a set of questions with checks of their answers.
type Golden struct {
	// Provider and Model to ask if the caller names none; empty is the policy's default.
	Provider string `yaml:"provider"`
	Model    string `yaml:"model"`
	// MaxTokens of each answer.
	MaxTokens int    `yaml:"max_tokens"`
	Cases     []Case `yaml:"cases"`
	// Version is a hash of the file.
	Version string `yaml:"-"`
}

// Case is a question with one check of its answer.
type Case struct {
	Name   string `yaml:"name"`
	System string `yaml:"system"`
	Prompt string `yaml:"prompt"`

	// Exact is the whole answer except for surrounding spaces, Contains the texts that must all be in it, Regex a
	// pattern that must match, JSONSchema the schema of the answer as JSON.
	Exact      *string        `yaml:"exact"`
	Contains   []string       `yaml:"contains"`
	Regex      *string        `yaml:"regex"`
	JSONSchema map[string]any `yaml:"json_schema"`

	kind   string
	regex  *regexp.Regexp
	schema *jsonschema.Schema
	format json.RawMessage
}

// Kind returns the kind of the check.
func (c *Case) Kind() string { return c.kind }

// ParseGolden reads a golden set. The error names the case and the rule.
func ParseGolden(text []byte) (*Golden, error) {
	g := &Golden{}
	if err := strictyaml.Decode(text, g); err != nil {
		return nil, fmt.Errorf("golden set: %w", err)
	}
	if len(g.Cases) == 0 || len(g.Cases) > maxCases {
		return nil, fmt.Errorf("golden set: cases: want 1 to %d", maxCases)
	}
	if g.MaxTokens == 0 {
		g.MaxTokens = defaultOutput
	}
	if g.MaxTokens < 1 || g.MaxTokens > maxOutput {
		return nil, fmt.Errorf("golden set: max_tokens: want 1 to %d", maxOutput)
	}
	names := make(map[string]bool)
	for i := range g.Cases {
		c := &g.Cases[i]
		if err := c.compile(); err != nil {
			return nil, fmt.Errorf("golden set: cases[%d] %q: %w", i, c.Name, err)
		}
		if names[c.Name] {
			return nil, fmt.Errorf("golden set: cases[%d]: the name %q appears twice", i, c.Name)
		}
		names[c.Name] = true
	}
	sum := sha256.Sum256(text)
	g.Version = hex.EncodeToString(sum[:6])
	return g, nil
}

// compile validates a case and prepares its check.
func (c *Case) compile() error {
	kinds := slices.DeleteFunc([]string{CheckExact, CheckContains, CheckRegex, CheckJSONSchema}, func(kind string) bool {
		return !map[string]bool{
			CheckExact: c.Exact != nil, CheckContains: len(c.Contains) > 0, CheckRegex: c.Regex != nil, CheckJSONSchema: c.JSONSchema != nil,
		}[kind]
	})
	switch {
	case strings.TrimSpace(c.Name) == "" || len(c.Name) > 128:
		return errors.New("name: want 1 to 128 characters")
	case strings.TrimSpace(c.Prompt) == "" || len(c.Prompt)+len(c.System) > maxPrompt:
		return fmt.Errorf("prompt: want 1 to %d bytes, with system", maxPrompt)
	case len(kinds) != 1:
		return errors.New("want exactly one of exact, contains, regex and json_schema")
	}
	c.kind = kinds[0]
	var err error
	switch c.kind {
	case CheckRegex:
		if c.regex, err = regexp.Compile(*c.Regex); err != nil {
			return fmt.Errorf("regex: %w", err)
		}
	case CheckJSONSchema:
		return c.compileSchema()
	}
	return nil
}

// noLoader loads no schema: a schema that refers to another document is refused.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is another document; the schema must contain everything that it refers to", url)
}

// compileSchema prepares the check and the response format that the model is asked for.
func (c *Case) compileSchema() error {
	text, err := json.Marshal(c.JSONSchema)
	if err != nil {
		return fmt.Errorf("json_schema: %w", err)
	}
	if depth(text) > maxSchemaDepth {
		return fmt.Errorf("json_schema: arrays and objects are nested more than %d deep", maxSchemaDepth)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("json_schema: %w", err)
	}
	const name = "golden:///case.json"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(name, document); err != nil {
		return fmt.Errorf("json_schema: %w", err)
	}
	if c.schema, err = compiler.Compile(name); err != nil {
		return fmt.Errorf("json_schema: %w", err)
	}
	c.format = json.RawMessage(`{"type":"json_object"}`)
	return nil
}

// maxSchemaDepth bounds the nesting of a schema: the cost of compiling one grows with a power of its depth, to over a
// gigabyte at a depth of 900.
const maxSchemaDepth = 64

// depth returns how deep arrays and objects are nested in valid JSON.
func depth(text []byte) (deepest int) {
	inside := 0
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		token, err := decoder.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			inside++
			deepest = max(deepest, inside)
		case json.Delim('}'), json.Delim(']'):
			inside--
		}
	}
}

// Check returns why an answer does not pass; nil if it does.
func (c *Case) Check(answer string) error {
	switch c.kind {
	case CheckExact:
		if strings.TrimSpace(answer) != strings.TrimSpace(*c.Exact) {
			return errors.New("the answer differs from the expected one")
		}
	case CheckContains:
		for _, part := range c.Contains {
			if !strings.Contains(answer, part) {
				return fmt.Errorf("the answer does not contain %q", part)
			}
		}
	case CheckRegex:
		if !c.regex.MatchString(answer) {
			return fmt.Errorf("the answer does not match %s", *c.Regex)
		}
	case CheckJSONSchema:
		return c.checkSchema(answer)
	}
	return nil
}

func (c *Case) checkSchema(answer string) error {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(unfenced(answer)))
	if err != nil {
		return errors.New("the answer is not valid JSON")
	}
	err = c.schema.Validate(value)
	if failed, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		for len(failed.Causes) > 0 {
			failed = failed.Causes[0]
		}
		return fmt.Errorf("at /%s: the answer violates %s", strings.Join(failed.InstanceLocation, "/"), strings.Join(failed.ErrorKind.KeywordPath(), "/"))
	}
	return err
}

// unfenced returns JSON without the code fence that models like to put around it.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	if inside, ok := strings.CutPrefix(text, "```"); ok && strings.HasSuffix(inside, "```") {
		_, inside, _ = strings.Cut(inside, "\n")
		return strings.TrimSuffix(inside, "```")
	}
	return text
}
