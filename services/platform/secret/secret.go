// Package secret owns values that must not be seen: an opaque string that
// prints as a fixed text wherever it ends up, and the files it is read from.
// Every package that holds a credential uses it.
package secret
