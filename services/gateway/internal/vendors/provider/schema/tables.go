package schema

// Gemini holds the rules of Google's models. Source: Gemini API reference, GenerationConfig.responseJsonSchema.
var Gemini = Rules{LoneReferences: true, Keywords: map[string]Keyword{
	"$id": Taken, "$ref": Reference, "$anchor": Taken, "type": Taken, "format": Taken,
	"title": Taken, "description": Taken, "enum": Taken, "minItems": Taken, "maxItems": Taken,
	"minimum": Taken, "maximum": Taken, "required": Taken, "propertyOrdering": Taken, "discriminator": Dropped,

	"$schema": Taken, "$comment": Taken, "default": Taken, "examples": Taken, "deprecated": Taken, "readOnly": Taken, "writeOnly": Taken,

	"items": Schema, "prefixItems": List, "anyOf": List, "oneOf": List,
	"$defs": Object, "properties": Object, "additionalProperties": Boolean, "const": Constant,
}}

// Anthropic holds the rules of Claude, on any host. Source: Anthropic documentation, "Structured outputs", "JSON Schema
// limitations".
var Anthropic = Rules{
	Keywords: map[string]Keyword{
		"type": Taken, "title": Taken, "description": Taken, "default": Taken, "required": Taken,
		"enum": Plain, "const": Plain, "format": Format, "pattern": Pattern, "minItems": FewItems, "$ref": Reference,

		"$schema": Dropped, "$id": Dropped, "$anchor": Dropped, "$comment": Dropped, "deprecated": Dropped, "readOnly": Dropped,
		"writeOnly": Dropped, "propertyOrdering": Dropped, "discriminator": Dropped,

		"minimum": Described, "maximum": Described, "exclusiveMinimum": Described, "exclusiveMaximum": Described, "multipleOf": Described,
		"minLength": Described, "maxLength": Described, "maxItems": Described, "uniqueItems": Described, "examples": Described,
		"minProperties": Described, "maxProperties": Described, "contentEncoding": Described, "contentMediaType": Described,

		"items": Schema, "anyOf": List, "oneOf": Union, "allOf": Single,
		"$defs": Object, "definitions": Object, "properties": Object, "additionalProperties": Boolean,
	},
	Formats: []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"},
	Closed:  true, NoRecursion: true,
}

// OpenAI holds the rules of OpenAI's own models. Sources: OpenAI documentation, "Structured model outputs", "Supported
// schemas"; for references, the vendor's error "$ref cannot have keywords" and its developer forum.
var OpenAI = Rules{
	Keywords: map[string]Keyword{
		"type": Taken, "title": Taken, "description": Taken, "required": Taken, "enum": Taken, "const": Taken, "$ref": Reference,
		"minimum": Taken, "maximum": Taken, "exclusiveMinimum": Taken, "exclusiveMaximum": Taken, "multipleOf": Taken,
		"minItems": Taken, "maxItems": Taken, "pattern": Pattern, "format": Format,

		"$schema": Dropped, "$id": Dropped, "$anchor": Dropped, "$comment": Dropped, "deprecated": Dropped, "readOnly": Dropped,
		"writeOnly": Dropped, "propertyOrdering": Dropped, "discriminator": Dropped,

		"minLength": Described, "maxLength": Described, "uniqueItems": Described, "minProperties": Described, "maxProperties": Described,
		"default": Described, "examples": Described, "contentEncoding": Described, "contentMediaType": Described,

		"items": Schema, "anyOf": List, "oneOf": Union, "allOf": Single,
		"$defs": Object, "definitions": Object, "properties": Object, "additionalProperties": Boolean,
	},
	Formats: []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"},
	Closed:  true, AllRequired: true, LoneReferences: true,
}
