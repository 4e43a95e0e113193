// Package secret holds values that must not be printed: an opaque string that every printer and encoder shows as a
// fixed text, and the files that secrets are read from. Every package that holds a credential uses it.
package secret
