// Package migrations holds the numbered SQL files of the notify schema, which
// `notify migrate` applies and `notify serve` checks.
package migrations

import "embed"

// FS holds the files at its root.
//
//go:embed *.sql
var FS embed.FS
