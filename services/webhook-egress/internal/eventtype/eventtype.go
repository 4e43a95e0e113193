// Package eventtype owns the registry of event types: what an organization says of the types of its events, and the check
// of their payloads against its schemas. The types of Switchyard's own events are in every organization's registry.
package eventtype

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/schema"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// The bounds of a type.
const (
	// maxName is the longest name, as of an event's type.
	maxName = 128
	// maxExamples bounds the examples together, in bytes.
	maxExamples = 64 << 10
)

// Validation is what happens to an event whose payload breaks the schema of its type.
type Validation string

// The validations.
const (
	Reject Validation = "reject"
	Warn   Validation = "warn"
	Off    Validation = "off"
)

// Type is a registered type.
type Type struct {
	Name, Description string
	// Schema is a JSON Schema; empty for none.
	Schema     []byte
	Validation Validation
	// Examples are JSON objects that follow the schema.
	Examples   [][]byte
	Deprecated bool
	// House reports a type of Switchyard's own, which has no times.
	House            bool
	Created, Updated time.Time
}

// Hash identifies the schema.
func (t Type) Hash() [32]byte { return sha256.Sum256(t.Schema) }

// Summary is a Type without schema and examples.
type Summary struct {
	Name, Description string
	HasSchema         bool
	Validation        Validation
	Deprecated, House bool
	Created, Updated  time.Time
}

// Rule is the schema that the events of a type are checked against, and what follows. Its validation is not Off.
type Rule struct {
	Validation Validation
	// Hash identifies the schema.
	Hash [32]byte
}

// Store persists the types of organizations. A type that doesn't exist is an apierr of kind not found.
type Store interface {
	// Put registers or replaces a type. It returns when it was registered first, and whether that is now. It fails with an
	// apierr of kind conflict if the organization has limit others.
	Put(ctx context.Context, organization string, t Type, limit int) (created time.Time, added bool, err error)
	Get(ctx context.Context, organization, name string) (Type, error)
	// Rule returns the rule of a type; found is false if its events are not checked.
	Rule(ctx context.Context, organization, name string) (rule Rule, found bool, err error)
	// List returns at most limit types after a name, in the order of their names.
	List(ctx context.Context, organization, after string, limit int) ([]Summary, error)
	Delete(ctx context.Context, organization, name string) error
}

// check compiles the schema of a type and refuses what breaks a rule. The schema is nil for a type without one.
func check(organization string, t Type) (*schema.Schema, error) {
	if err := checkName(t.Name); err != nil {
		return nil, err
	}
	if err := delivery.CheckTexts(map[string]string{"organization_id": organization, "description": t.Description}); err != nil {
		return nil, err
	}
	var compiled *schema.Schema
	if len(t.Schema) > 0 {
		var err error
		if compiled, err = schema.Compile(t.Schema); err != nil {
			return nil, apierr.Invalid("schema", err.Error())
		}
	}
	return compiled, checkExamples(t.Examples, compiled)
}

// checkName refuses names that no event of an organization can have as its type.
func checkName(name string) error {
	if len(name) > maxName {
		return apierr.Invalid("type", fmt.Sprintf("must not be longer than %d characters", maxName))
	}
	if strings.HasPrefix(name, delivery.OwnEvents) {
		return apierr.Invalid("type", "must not begin with `"+delivery.OwnEvents+"`: such types are Switchyard's own and can't be changed")
	}
	return nil
}

// checkExamples refuses examples that can't be payloads or break the schema, which may be nil.
func checkExamples(examples [][]byte, compiled *schema.Schema) error {
	size := 0
	for i, example := range examples {
		field := fmt.Sprintf("examples[%d]", i)
		if size += len(example); size > maxExamples {
			return apierr.Invalid("examples", fmt.Sprintf("must not be larger than %d bytes together", maxExamples))
		}
		if rule := jsoncheck.ObjectRule(example); rule != "" {
			return apierr.Invalid(field, rule)
		}
		if compiled == nil {
			continue
		}
		if found := compiled.Check(example); len(found) > 0 {
			return broken(field, "breaks the schema: ", found)
		}
	}
	return nil
}

// broken returns the error of a field that breaks a schema: with a text that says what it breaks, and each violation.
func broken(field, what string, violations []schema.Violation) error {
	e := apierr.Invalid(field, what+text(violations))
	for _, v := range violations {
		e.Violations = append(e.Violations, apierr.Violation(v))
	}
	return e
}

// text returns violations in one line.
func text(violations []schema.Violation) string {
	texts := make([]string, len(violations))
	for i, v := range violations {
		texts[i] = v.String()
	}
	return strings.Join(texts, "; ")
}
