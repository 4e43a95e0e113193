package spool

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Volume says whether records in a spool can be relied on when their process, its container or its pod is gone.
type Volume struct {
	// Persistent reports that the volume outlives all three. It is false in doubt.
	Persistent bool
	// Reason names the kind of the volume, for logs.
	Reason string
}

// Volume returns the volume of the spool's folder.
func (s *Spool) Volume() Volume {
	root, err := filepath.EvalSymlinks(s.root)
	if err != nil {
		return Volume{Reason: fmt.Sprintf("unknown volume: %v", err)}
	}
	if root, err = filepath.Abs(root); err != nil {
		return Volume{Reason: fmt.Sprintf("unknown volume: %v", err)}
	}
	mounts, err := mountinfo.GetMounts(mountinfo.ParentsFilter(root))
	if err != nil {
		return Volume{Reason: fmt.Sprintf("unknown volume: %v", err)}
	}
	return volumeOf(mounts)
}

// ephemeral are the file systems that end with the machine's memory or with a container.
var ephemeral = []string{"tmpfs", "ramfs", "rootfs", "overlay", "aufs", "fuse.fuse-overlayfs"}

// emptyDir is part of the path of a Kubernetes emptyDir volume on its node. It is removed with its pod.
const emptyDir = "/kubernetes.io~empty-dir/"

// volumeOf judges the mounts above a folder, in the order in which they were made.
func volumeOf(mounts []*mountinfo.Info) Volume {
	if len(mounts) == 0 {
		return Volume{Reason: "unknown volume: no mount"}
	}
	of := mounts[0]
	for _, mount := range mounts[1:] {
		if len(mount.Mountpoint) >= len(of.Mountpoint) { // A later mount covers an earlier one at the same place.
			of = mount
		}
	}
	switch {
	case slices.Contains(ephemeral, of.FSType):
		return Volume{Reason: of.FSType + " at " + of.Mountpoint}
	case strings.Contains(of.Root, emptyDir):
		return Volume{Reason: "emptyDir at " + of.Mountpoint}
	}
	return Volume{Persistent: true, Reason: of.FSType + " at " + of.Mountpoint}
}
