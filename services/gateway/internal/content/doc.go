// Package content is the district of text that passes through: JSON that is rewritten in place, the JSON that leaves
// the gateway, and text that is redacted before people read it.
//
// It holds no state. Policy compiles redaction rules, the serving packages and the vendor adapters read JSON. From the
// bottom up: jsontext, then redact, which uses it to redact the string values of a document only.
package content
