package proc

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestReadsThisProcess(t *testing.T) {
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

// The processor time of a child counts once it has ended, because a server's workers start and end.
func TestEndedChildrenCount(t *testing.T) {
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), "sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	after, err := CPU(os.Getpid())
	if used := child.ProcessState.UserTime(); err != nil || used < 5*tick || after-before < used-2*tick {
		t.Errorf("the child used %s, of which %s count, %v", used, after-before, err)
	}
}
