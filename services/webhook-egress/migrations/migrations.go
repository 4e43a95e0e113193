// Package migrations holds the schema of webhook-egress as numbered goose files. `webhook-egress migrate` applies
// them; `serve` refuses a database without all of them.
package migrations

import "embed"

// FS holds the numbered files at its root.
//
//go:embed *.sql
var FS embed.FS
