package store

import (
	"os"
	"path/filepath"
	"testing"
)

func TestParseMajor(t *testing.T) {
	tests := []struct {
		text string
		want int
	}{
		{"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", 15},
		{"postgres (PostgreSQL) 18beta1\n", 18},
		{"postgres (PostgreSQL) 17\n", 17},
		{"postgres (PostgreSQL) 17", 17},
		{"postgres (PostgreSQL) 9.6.24", 9},
		{"mysqld 8.0", 0},
		{"postgres (PostgreSQL) ", 0},
		{"", 0},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := parseMajor(tt.text)
			if got != tt.want || (err == nil) != (tt.want != 0) {
				t.Errorf("got %d, %v, want %d", got, err, tt.want)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	onPath, newer := binaries{"/a", 15}, binaries{"/b", 17}
	tests := []struct {
		name  string
		found []binaries
		data  int
		want  binaries
		fails bool
	}{
		{"new data takes the first", []binaries{onPath, newer}, 0, onPath, false},
		{"data of the second", []binaries{onPath, newer}, 17, newer, false},
		{"data of neither", []binaries{onPath, newer}, 16, binaries{}, true},
		{"nothing installed", nil, 0, binaries{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := choose(tt.found, tt.data)
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

func TestInspectWantsBothPrograms(t *testing.T) {
	dir := t.TempDir()
	program := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	program("postgres", "#!/bin/sh\necho 'postgres (PostgreSQL) 16.3'\n", 0o755)
	if _, err := inspect(t.Context(), dir); err == nil {
		t.Error("accepted without initdb")
	}
	program("initdb", "", 0o644)
	if _, err := inspect(t.Context(), dir); err == nil {
		t.Error("accepted with an initdb that can't be run")
	}
	chmod(t, filepath.Join(dir, "initdb"), 0o755)
	got, err := inspect(t.Context(), dir)
	if err != nil || got != (binaries{dir, 16}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestDataMajor(t *testing.T) {
	dir := t.TempDir()
	if got, err := dataMajor(dir); got != 0 || err != nil {
		t.Errorf("no data: %d, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := dataMajor(dir); got != 15 || err != nil {
		t.Errorf("got %d, %v, want 15", got, err)
	}
}

func TestParseLock(t *testing.T) {
	tests := []struct {
		name, text  string
		pid, number int
	}{
		{"complete", "4711\n/data\n1763714000\n15432\n\n127.0.0.1\n  5432001    32768\nready   \n", 4711, 15432},
		{"still being written", "4711\n/data\n", 0, 0},
		{"no number", "x\n\n\n15432\n", 0, 0},
		{"no port", "4711\n\n\n\n", 0, 0},
		{"empty", "", 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if pid, number := parseLock(tt.text); pid != tt.pid || number != tt.number {
				t.Errorf("got %d, %d, want %d, %d", pid, number, tt.pid, tt.number)
			}
		})
	}
}
