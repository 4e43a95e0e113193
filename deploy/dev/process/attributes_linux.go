package process

import "syscall"

// attributes also ask the kernel to end the program should the stack die
// without a chance to do it (kill -9, a test's timeout): nothing is left behind
// that holds the ports.
func attributes(spec Spec) *syscall.SysProcAttr {
	end := spec.End
	if end == 0 {
		end = syscall.SIGTERM
	}
	return &syscall.SysProcAttr{Setpgid: true, Credential: spec.Credential, Pdeathsig: end}
}
