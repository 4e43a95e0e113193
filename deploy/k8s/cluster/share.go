package cluster

import (
	"errors"
	"io/fs"
	"os"
)

// shareClaims makes everything on the pod's claims writable for its group, as kubelet does before each start of a pod
// with an fsGroup: https://kubernetes.io/docs/tasks/configure-pod-container/security-context/. The group itself stays
// that of this process.
func (p *pod) shareClaims() error {
	if p.spec.SecurityContext.FSGroup == nil {
		return nil
	}
	for _, root := range p.claims {
		info, err := os.Stat(root)
		if err != nil {
			return err
		}
		if p.spec.SecurityContext.FSGroupChangePolicy == "OnRootMismatch" && info.Mode()&shared == shared {
			continue
		}
		if err := shareAll(root); err != nil {
			return err
		}
	}
	return nil
}

// shared are the bits of a folder that belongs to a group.
const shared = fs.ModeSetgid | 0o770

func shareAll(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode() | 0o660
		if info.IsDir() {
			mode |= shared
		}
		if err := root.Chmod(path, mode); !errors.Is(err, fs.ErrNotExist) { // A program that ends removes files.
			return err
		}
		return nil
	})
}
