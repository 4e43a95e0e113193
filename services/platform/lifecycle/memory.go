package lifecycle

import (
	"context"
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// heapShare is the part of the container's memory that Go's runtime may hold before it collects at any price. The rest
// is for what the runtime doesn't count, such as the pages of the program itself.
const heapShare = 0.85

// LimitMemory gives the garbage collector the memory limit of the process's container, so that a burst of large
// requests costs processor time and not the process. Without a limit (cgroups), or if GOMEMLIMIT is set, it changes
// nothing.
func LimitMemory(ctx context.Context, log *slog.Logger) { limitMemory(ctx, log, memlimit.FromCgroup) }

func limitMemory(ctx context.Context, log *slog.Logger, container memlimit.Provider) {
	if _, err := memlimit.Set(memlimit.WithProvider(container), memlimit.WithRatio(heapShare)); err != nil {
		log.WarnContext(ctx, "the container's memory limit can't be read; GOMEMLIMIT sets one for the garbage collector", "error", err)
	}
}
