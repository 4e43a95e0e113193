// Package content is the district of text that passes through: JSON that is rewritten in place, the JSON that leaves
// the gateway, the form of JSON that is compared and approved, text that is redacted before people read it, and text
// whose tokens are counted.
//
// It holds no state but the vocabularies. Policy compiles redaction rules, the serving packages and the vendor adapters
// read JSON, approvals compare it, bills count tokens. From the bottom up: token, canonical, jsontext, then redact, which
// uses it to redact the string values of a document only.
package content
