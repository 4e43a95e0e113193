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
	records, err = spool.Open(filepath.Join(cmp.Or(dir, os.TempDir()), "switchyard-"+s.Name), limit)
	if err != nil {
		return nil, false, err
	}
	volume := records.Volume()
	durable = dir != "" && volume.Persistent
	s.Log.InfoContext(ctx, "spool opened", "volume", volume.Reason, "durable", durable)
	return records, durable, nil
}
