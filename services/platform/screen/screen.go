// Package screen keeps keys that were put into a wrong field out of responses, logs and rows. It recognizes keys, and
// decides which names may be repeated to a caller or an operator. It holds no state.
package screen
