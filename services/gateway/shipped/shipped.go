// Package shipped holds the routing policy and the prices that the gateway ships
// with. internal/app uses them where an operator names no files of its own.
package shipped

import _ "embed"

// Policy is the shipped routing policy.
//
//go:embed policy.yaml
var Policy []byte

// Catalog is the shipped catalog of models.
//
//go:embed catalog.yaml
var Catalog []byte

// Prices is the shipped price table.
//
//go:embed prices.yaml
var Prices []byte

// Golden is the shipped golden set.
//
//go:embed golden.yaml
var Golden []byte
