// Package migrations holds the numbered SQL files of the gateway schema, which
// `gateway migrate` applies and `gateway serve` checks.
package migrations

import "embed"

// FS holds the files at its root.
//
//go:embed *.sql
var FS embed.FS
