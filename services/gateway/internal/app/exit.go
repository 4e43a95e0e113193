package app

import "errors"

// exit is an error with which a command ends with a status of its own.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string { return e.err.Error() }
func (e *exit) Unwrap() error { return e.err }

// ExitCode returns the status with which a command ends that returned an error: 0 for nil, 1 unless the command says
// another.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*exit](err); ok {
		return e.code
	}
	return 1
}
