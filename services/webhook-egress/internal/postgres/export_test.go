package postgres

// WithoutPipeline makes s use a plain transaction, with a round trip for each statement, in place of the pipeline.
func WithoutPipeline(s *Store) *Store {
	s.transact = s.inCountedTx
	return s
}
