package cert

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "certificate.pem")
	now := time.Now()
	kept := func(at time.Time, hosts ...string) []byte {
		t.Helper()
		certificate, text, err := Kept(file, at, hosts...)
		if err != nil || !bytes.Equal(encode(certificate.Certificate[0]), text) {
			t.Fatalf("Kept: %v, %s", err, text)
		}
		return text
	}
	first := kept(now)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the key: %v, %v", info.Mode(), err)
	}
	if !bytes.Equal(kept(now.Add(time.Hour)), first) {
		t.Error("an hour later it is another one")
	}
	named := kept(now, "fakes")
	if bytes.Equal(named, first) {
		t.Error("it isn't for the further host")
	}
	if !bytes.Equal(kept(now, "fakes"), named) {
		t.Error("the one for the further host isn't kept")
	}
	later := now.Add(lifetime/2 + time.Hour)
	if bytes.Equal(kept(later, "fakes"), named) {
		t.Error("it is kept for more than half of its lifetime")
	}
	if err := os.WriteFile(file, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	kept(now)
	if _, _, err := Kept(t.TempDir(), now); err == nil {
		t.Error("a folder is taken for a file")
	}
}
