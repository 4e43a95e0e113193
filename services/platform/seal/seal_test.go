package seal_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

const hexKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

func open(t *testing.T, key, service string) *seal.Box {
	t.Helper()
	box, err := seal.New(secret.New(key), service)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func TestSeal(t *testing.T) {
	box := open(t, hexKey, "notify")
	sealed := box.Seal([]byte("hunter2-hunter2"), "id-1")
	testkit.NoLeak(t, "hunter2-hunter2", string(sealed))
	if text, err := box.Open(sealed, "id-1"); err != nil || string(text) != "hunter2-hunter2" {
		t.Errorf("%q, %v", text, err)
	}
	same := open(t, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", "notify")
	if _, err := same.Open(sealed, "id-1"); err != nil {
		t.Errorf("the key in base64: %v", err)
	}
	if again := box.Seal([]byte("hunter2-hunter2"), "id-1"); string(again) == string(sealed) {
		t.Error("two seals of one text are alike")
	}
	other := open(t, strings.Replace(hexKey, "00", "ff", 1), "notify")
	flipped := append([]byte(nil), sealed...)
	flipped[len(flipped)-1] ^= 1
	elsewhere := open(t, hexKey, "webhook")
	for name, try := range map[string]func() ([]byte, error){
		"another owner":   func() ([]byte, error) { return box.Open(sealed, "id-2") },
		"another key":     func() ([]byte, error) { return other.Open(sealed, "id-1") },
		"another service": func() ([]byte, error) { return elsewhere.Open(sealed, "id-1") },
		"changed":         func() ([]byte, error) { return box.Open(flipped, "id-1") },
		"empty":           func() ([]byte, error) { return box.Open(nil, "id-1") },
		"short":           func() ([]byte, error) { return box.Open([]byte{1}, "id-1") },
		"version":         func() ([]byte, error) { return box.Open(append([]byte{2}, sealed[1:]...), "id-1") },
	} {
		if text, err := try(); !errors.Is(err, seal.ErrOpen) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// Texts sealed by earlier releases must stay readable.
func TestKeptTextsOpen(t *testing.T) {
	for service, kept := range map[string]string{
		"notify":  "01f7292b8ddc1a1d5cecb0bbf35cefa8cf361bfd959a06c503acd70b5e11c6f356",
		"webhook": "0170501cce4af3dc8bd1adc0839aabb63b800d2e285fab971ecf9952145fbb212e",
	} {
		sealed, err := hex.DecodeString(kept)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := open(t, hexKey, service).Open(sealed, "id-1"); err != nil || string(text) != "kept" {
			t.Errorf("%s: %q, %v", service, text, err)
		}
	}
}

func TestKeyIsNotRepeated(t *testing.T) {
	for _, key := range []string{"canary-of-a-bad-key", hexKey + "ff", ""} {
		_, err := seal.New(secret.New(key), "notify")
		if err == nil {
			t.Fatalf("a key of %d characters was taken", len(key))
		}
		if len(key) > 8 {
			testkit.NoLeak(t, key, err.Error())
		}
	}
}
