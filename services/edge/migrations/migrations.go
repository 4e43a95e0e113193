// Package migrations holds the edge's database schema as numbered files.
package migrations

import "embed"

// FS holds the files, applied in the order of their numbers.
//
//go:embed *.sql
var FS embed.FS
