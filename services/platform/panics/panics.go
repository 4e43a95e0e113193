// Package panics turns panics into errors where nothing above recovers them: in
// goroutines that a request started, in work behind its answer, in the parts of a
// service. A panic in a goroutine that no one recovers ends the whole process.
package panics

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Err is what every Error is, for [errors.Is].
var Err = errors.New("panic")

// Error is a panic that was recovered.
type Error struct {
	Value any
	// Stack is the trace of the goroutine, as far as the panic.
	Stack []byte
}

// Error has the value and the stack, for the log; a caller is never shown it.
func (e *Error) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Is reports whether target is Err.
func (e *Error) Is(target error) bool { return target == Err }

// Recover makes a panic the *Error of the function that defers it.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = &Error{Value: p, Stack: debug.Stack()}
	}
}

// Guard returns f with its panics as errors: what an errgroup should be given.
func Guard(f func() error) func() error {
	return func() error { return Call(f) }
}

// Call runs f and returns its error, or its panic as one.
func Call(f func() error) (err error) {
	defer Recover(&err)
	return f()
}
