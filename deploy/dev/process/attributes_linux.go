package process

import "syscall"

// attributes also has the kernel end the program should the stack die without ending it (kill -9, a test's timeout),
// so that no process is left that holds the ports.
func attributes(spec Spec) *syscall.SysProcAttr {
	end := spec.End
	if end == 0 {
		end = syscall.SIGTERM
	}
	return &syscall.SysProcAttr{Setpgid: true, Credential: spec.Credential, Pdeathsig: end}
}
