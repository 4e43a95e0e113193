// Package screen keeps keys that were put into a wrong field out of answers, logs
// and rows. It knows what keys look like, and which names may be repeated to a
// caller or an operator. It holds no state.
package screen
