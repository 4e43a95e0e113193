//go:build !linux

package upstream

import "syscall"

// groupOfItsOwn are the attributes of a process that is ended with all that it has started.
func groupOfItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// limit does nothing: only Linux bounds another process.
func limit(int) error { return nil }
