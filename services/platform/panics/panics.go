// Package panics turns panics into errors where no caller recovers them: in goroutines that a request starts, in work
// done after its response, and in the parts of a service. An unrecovered panic in a goroutine ends the process.
package panics

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Err matches every Error with [errors.Is].
var Err = errors.New("panic")

// Error is a panic that was recovered.
type Error struct {
	Value any
	// Stack is the goroutine's stack trace, down to the panic.
	Stack []byte
}

// Error returns the value and the stack, for the log. It must not be shown to a caller.
func (e *Error) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Is reports whether target is Err.
func (e *Error) Is(target error) bool { return target == Err }

// Recover stores a panic as an *Error in err, the result of the function that defers it.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = &Error{Value: p, Stack: debug.Stack()}
	}
}

// Guard returns f with its panics converted to errors, for an errgroup.
func Guard(f func() error) func() error {
	return func() error { return Call(f) }
}

// Call runs f and returns its error, or its panic as an *Error.
func Call(f func() error) (err error) {
	defer Recover(&err)
	return f()
}
