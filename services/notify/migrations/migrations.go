// Package migrations holds the numbered SQL files of the notify schema. `notify migrate` applies them, and `notify
// serve` checks that all are applied.
package migrations

import "embed"

// FS holds the files at its root.
//
//go:embed *.sql
var FS embed.FS
