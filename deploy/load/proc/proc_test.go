package proc

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
)

func TestReadsThisProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has /proc")
	}
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for now := before; now <= before; {
		for range 1_000_000 {
			_ = os.Getpid()
		}
		if now, err = CPU(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	rss, err := RSS(os.Getpid())
	if err != nil || rss < 1<<20 {
		t.Errorf("RSS %d, %v", rss, err)
	}
	child := exec.CommandContext(t.Context(), "cat")
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(Children(os.Getpid()), child.Process.Pid) {
		t.Error("the child was not found")
	}
	_ = stdin.Close()
	_ = child.Wait()
	if _, err := CPU(child.Process.Pid); err == nil {
		t.Error("a process that has ended was read")
	}
}
