package batchjob

import "context"

// Turn works on all jobs that are due.
func (m *Manager) Turn(ctx context.Context) error { return m.turn(ctx) }
