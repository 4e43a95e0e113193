package service

import (
	"cmp"
	"context"
	"os"
	"path/filepath"

	"switchyard.dev/services/platform/spool"
)

// Spool opens the service's spool in a folder, which replicas may share; the system's temporary folder if dir is empty.
// durable reports that its records outlive the pod, so that it is enough to sync them. The caller closes the spool.
func (s *Service) Spool(ctx context.Context, dir string, limit int64) (records *spool.Spool, durable bool, err error) {
	records, err = spool.Open(spoolFolder(s.Name, dir), limit)
	if err != nil {
		return nil, false, err
	}
	volume := records.Volume()
	durable = dir != "" && volume.Persistent
	s.Log.InfoContext(ctx, "spool opened", "volume", volume.Reason, "durable", durable)
	return records, durable, nil
}

// CheckSpool reports why a service could not open its spool in a folder; it makes nothing.
func CheckSpool(name, dir string) error { return spool.Check(spoolFolder(name, dir)) }

func spoolFolder(name, dir string) string {
	return filepath.Join(cmp.Or(dir, os.TempDir()), "switchyard-"+name)
}
