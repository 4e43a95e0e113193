package spool

import (
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// Each case is a /proc/self/mountinfo (proc_pid_mountinfo(5)) as a container of that kind sees it.
func TestVolume(t *testing.T) {
	const (
		host      = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
		container = "711 640 0:61 / / rw,relatime - overlay overlay rw,lowerdir=/a,upperdir=/b,workdir=/c\n"
	)
	for _, c := range []struct {
		name, mounts string
		want         Volume
	}{
		{"a host", host, Volume{true, "ext4 at /"}},
		{"a host's temporary file system", host + "30 22 0:25 / /data rw - tmpfs tmpfs rw\n", Volume{false, "tmpfs at /data"}},
		{"a container's own layer", container, Volume{false, "overlay at /"}},
		{
			"Docker's volume", container + "730 711 254:1 /var/lib/docker/volumes/spool/_data /data/spool rw - ext4 /dev/vdb rw\n",
			Volume{true, "ext4 at /data/spool"},
		},
		{
			"emptyDir", container + "730 711 259:1 /var/lib/kubelet/pods/7c1/volumes/kubernetes.io~empty-dir/spool /data/spool rw - xfs /dev/nvme0n1p1 rw\n",
			Volume{false, "emptyDir at /data/spool"},
		},
		{
			"emptyDir in memory", container + "730 711 0:90 / /data/spool rw - tmpfs tmpfs rw,size=262144k\n",
			Volume{false, "tmpfs at /data/spool"},
		},
		{"a claimed volume", container + "730 711 259:9 / /data/spool rw - ext4 /dev/nvme1n1 rw\n", Volume{true, "ext4 at /data/spool"}},
		{"a network file system", container + "730 711 0:99 /export /data/spool rw - nfs4 10.0.0.1:/export rw\n", Volume{true, "nfs4 at /data/spool"}},
		{
			"a mount over another", container + "730 711 259:9 / /data rw - ext4 /dev/nvme1n1 rw\n731 730 0:90 / /data rw - tmpfs tmpfs rw\n",
			Volume{false, "tmpfs at /data"},
		},
		{"a mount beside it", host + "30 22 0:25 / /data/spoolers rw - tmpfs tmpfs rw\n", Volume{true, "ext4 at /"}},
		{"no mount", "", Volume{false, "unknown volume: no mount"}},
	} {
		mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(c.mounts), mountinfo.ParentsFilter("/data/spool"))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := volumeOf(mounts); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// The volume of a folder of this machine is known, whatever it is.
func TestVolumeOfThisMachine(t *testing.T) {
	s, err := Open(t.TempDir()+"/spool", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if got := s.Volume(); strings.Contains(got.Reason, "unknown") {
		t.Errorf("%+v", got)
	}
}
