package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMayEnter(t *testing.T) {
	a := account{uid: 100, gid: 200}
	tests := []struct {
		name     string
		mode     os.FileMode
		uid, gid uint32
		want     bool
	}{
		{"owner may", 0o700, 100, 9, true},
		{"owner may not, though others may", 0o677, 100, 9, false},
		{"group may", 0o710, 9, 200, true},
		{"group may not, though others may", 0o701, 9, 200, false},
		{"others may", 0o711, 9, 9, true},
		{"others may not", 0o770, 9, 9, false},
		{"owner comes before group", 0o470, 100, 200, false},
		{"reading isn't entering", 0o744, 9, 9, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := mayEnter(a, tt.mode|os.ModeDir, tt.uid, tt.gid); got != tt.want {
				t.Errorf("mayEnter(%v, %d:%d) = %t", tt.mode, tt.uid, tt.gid, got)
			}
		})
	}
}

// otherUser is a user who owns no file of the tests.
var otherUser = account{name: "other", uid: 4_000_000_001, gid: 4_000_000_001}

// openFolder returns a folder of the test that every user can enter.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "switchyard-test-") //nolint:usetesting // other users can't enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	chmod(t, dir, 0o755)
	return dir
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Mkdir(path, mode); err != nil {
		t.Fatal(err)
	}
	chmod(t, path, mode)
}

func TestBlocked(t *testing.T) {
	root := openFolder(t)
	mkdir(t, filepath.Join(root, "open"), 0o711)
	mkdir(t, filepath.Join(root, "shut"), 0o700)
	mkdir(t, filepath.Join(root, "shut", "inner"), 0o755)
	if err := os.Symlink(filepath.Join(root, "shut", "inner"), filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path, want string
	}{
		{"every folder open", filepath.Join(root, "open"), ""},
		{"what doesn't exist yet counts as open", filepath.Join(root, "open", "new", "newer"), ""},
		{"the folder itself", filepath.Join(root, "shut"), filepath.Join(root, "shut")},
		{"a folder on the way", filepath.Join(root, "shut", "inner"), filepath.Join(root, "shut")},
		{"a new one below it", filepath.Join(root, "shut", "new"), filepath.Join(root, "shut")},
		{"where a link leads", filepath.Join(root, "link", "new"), filepath.Join(root, "shut")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := blocked(otherUser, tt.path)
			if err != nil || got != tt.want {
				t.Errorf("blocked(%s) = %q, %v, want %q", tt.path, got, err, tt.want)
			}
		})
	}
}

func TestFirstAccount(t *testing.T) {
	tests := []struct {
		name, passwd string
		want         account
		ok           bool
	}{
		{"after root", "root:x:0:0::/root:/bin/sh\nbin:x:1:2::/:/bin/false\n", account{"bin", 1, 2}, true},
		{"another name for root", "root:x:0:0::/:\ntoor:x:0:0::/:\nsync:x:4:65534::/:\n", account{"sync", 4, 65534}, true},
		{"broken lines", "garbage\n:x:5:5::\nx:y:z:w\nftp:x:14:50::/:\n", account{"ftp", 14, 50}, true},
		{"nobody", "root:x:0:0::/root:/bin/sh\n", account{}, false},
		{"empty", "", account{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := firstAccount(strings.NewReader(tt.passwd))
			if got != tt.want || ok != tt.ok {
				t.Errorf("got %v, %t, want %v, %t", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestPlace(t *testing.T) {
	self := account{name: "self", uid: uint32(os.Getuid()), gid: uint32(os.Getgid())}
	t.Run("a folder that can be reached", func(t *testing.T) {
		dir := filepath.Join(openFolder(t), "state", "postgres")
		got, err := place(self, dir)
		if err != nil || got != dir {
			t.Fatalf("place = %q, %v, want %q", got, err, dir)
		}
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	})
	t.Run("one that can't", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("only root may give a folder to another user")
		}
		root := openFolder(t)
		mkdir(t, filepath.Join(root, "shut"), 0o700)
		dir := filepath.Join(root, "shut", "postgres")
		got, err := place(otherUser, dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(got) })
		if obstacle, err := blocked(otherUser, got); err != nil || obstacle != "" {
			t.Errorf("placed in %s, where %q is in the way (%v)", got, obstacle, err)
		}
		again, err := place(otherUser, dir)
		if err != nil || again != got {
			t.Errorf("the second time: %q, %v, want %q", again, err, got)
		}
	})
}

func TestClaimRefusesAFolderOfAnotherUser(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	mkdir(t, target, 0o755)
	link := filepath.Join(dir, "switchyard-1")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	self := account{name: "self", uid: uint32(os.Getuid()), gid: uint32(os.Getgid())}
	if err := claim(self, link); err == nil {
		t.Error("a symbolic link was accepted")
	}
	if os.Getuid() == 0 {
		if err := os.Chown(target, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if err := claim(self, target); err == nil {
			t.Error("another user's folder was accepted")
		}
	}
}
