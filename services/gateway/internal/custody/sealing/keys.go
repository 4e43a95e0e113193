package sealing

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"switchyard.dev/services/platform/secret"
)

// ErrInvalid is the error of a ciphertext that the named key doesn't open: it was made for another key, organization or
// provider, or was changed on the way.
var ErrInvalid = errors.New("the sealed credential can't be opened")

// ErrUnknownKey is the error of a key ID without a key file.
var ErrUnknownKey = errors.New("no such sealing key")

// ErrNone is the error if there is no key at all.
var ErrNone = errors.New("no sealing key is configured")

const (
	// suffix is the suffix of key files.
	suffix = ".key"
	// rereadAfter is the least time between two reads of the folder for an unknown key.
	rereadAfter = time.Second
	// freshFor is how long the newest key is returned before the folder is read again.
	freshFor = 5 * time.Second
)

// Keys holds the private keys in the *.key files of a folder, one in each file. The newest is the current one; the
// others open what was sealed to them. Files may be added and removed while the service runs. Safe for concurrent use.
type Keys struct {
	dir string

	mu     sync.Mutex
	readAt time.Time
	byID   map[string]Key
	newest Key
}

// NewKeys reads a folder; "" means no keys. An unreadable key is an error.
func NewKeys(dir string) (*Keys, error) {
	k := &Keys{dir: dir}
	return k, k.read(time.Now())
}

// Current returns the key to seal to. The error is ErrNone if there is no key.
func (k *Keys) Current() (Public, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); now.Sub(k.readAt) >= freshFor {
		if err := k.read(now); err != nil {
			return Public{}, err
		}
	}
	if k.newest.ID == "" {
		return Public{}, ErrNone
	}
	return k.newest.Public, nil
}

// Open decrypts what was sealed for an organization and a provider. The error is ErrUnknownKey or ErrInvalid, or a
// failure to read the folder.
func (k *Keys) Open(id, organization, provider string, sealed []byte) (secret.Value, error) {
	key, err := k.find(id)
	if err != nil {
		return secret.Value{}, err
	}
	return key.open(organization, provider, sealed)
}

func (k *Keys) find(id string) (Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, ok := k.byID[id]
	if now := time.Now(); !ok && now.Sub(k.readAt) >= rereadAfter {
		if err := k.read(now); err != nil {
			return Key{}, err
		}
		key, ok = k.byID[id]
	}
	if !ok {
		return Key{}, ErrUnknownKey
	}
	return key, nil
}

// read reads the folder. If one of the files can't be read, the previous keys stay.
func (k *Keys) read(now time.Time) error {
	k.readAt = now
	if k.dir == "" {
		return nil
	}
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		return fmt.Errorf("sealing keys: %w", err)
	}
	byID, newest := make(map[string]Key), Key{}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), suffix) || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		path := filepath.Join(k.dir, entry.Name())
		line, err := secret.File(path).Read()
		if err != nil {
			return fmt.Errorf("sealing keys: %w", err)
		}
		key, err := Parse(line)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		byID[key.ID] = key
		if newest.ID == "" || key.Created.After(newest.Created) || key.Created.Equal(newest.Created) && key.ID > newest.ID {
			newest = key
		}
	}
	k.byID, k.newest = byID, newest
	return nil
}
