// Package proc reads the resource usage of processes from Linux's /proc.
package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the kernel's unit of CPU time: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// CPU returns the processor time that a process has used, with its children that have ended.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(file(pid, "stat"))
	if err != nil {
		return 0, err
	}
	// The command's name is in parentheses and may hold anything.
	_, rest, found := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	const first, last = 11, 14 // utime, stime and those of children, counted from the state
	if !found || len(fields) <= last {
		return 0, errors.New("proc: unknown form of stat")
	}
	var ticks int64
	for _, field := range fields[first : last+1] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("proc: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// RSS returns the resident memory of a process in bytes.
func RSS(pid int) (int64, error) {
	text, err := os.ReadFile(file(pid, "statm"))
	if err != nil {
		return 0, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0, fmt.Errorf("proc: %w", err)
	}
	return resident * int64(os.Getpagesize()), nil
}

// Started returns the start time of a process, in the kernel's ticks since boot. Together with its id, it identifies
// one process for good.
func Started(pid int) (string, error) {
	text, err := os.ReadFile(file(pid, "stat"))
	if err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	const state, began = 0, 19 // counted from the state
	if !found || len(fields) <= began {
		return "", errors.New("proc: unknown form of stat")
	}
	if fields[state] == "Z" {
		return "", fmt.Errorf("proc: process %d has ended", pid)
	}
	return fields[began], nil
}

// Children returns the processes that a process started, and theirs.
func Children(pid int) []int {
	var all []int
	tasks, _ := filepath.Glob(file(pid, "task/*/children")) // the pattern is valid
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // it has ended
		}
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(append(all, child), Children(child)...)
			}
		}
	}
	return all
}

func file(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}
