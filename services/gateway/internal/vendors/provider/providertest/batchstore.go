package providertest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// BatchStore holds the jobs of a vendor of batch jobs. Its methods are safe for concurrent use.
type BatchStore struct {
	mu    sync.Mutex
	jobs  []*StoredBatch
	files map[string]string
	next  int
}

// StoredBatch is a job of a vendor.
type StoredBatch struct {
	ID, Mark string
	// Input is the id of the file that it was made of; empty at a vendor without files.
	Input  string
	Made   time.Time
	Count  int
	Lines  []provider.BatchLine
	Status provider.BatchStatus
	// Answered and Failed are lines of results.
	Answered, Failed []string
}

// Add adds a job that is in progress, with a new id, and returns a copy.
func (s *BatchStore) Add(job StoredBatch) StoredBatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	job.ID = fmt.Sprintf("batch_%d", s.next)
	job.Status = provider.BatchInProgress
	if job.Made.IsZero() {
		job.Made = time.Now()
	}
	if job.Lines != nil {
		job.Count = len(job.Lines)
	}
	s.jobs = append(s.jobs, &job)
	return job
}

// Jobs returns copies of all jobs, the newest first.
func (s *BatchStore) Jobs() []StoredBatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]StoredBatch, 0, len(s.jobs))
	for _, job := range slices.Backward(s.jobs) {
		all = append(all, *job)
	}
	return all
}

// Job returns a copy of a job.
func (s *BatchStore) Job(id string) (StoredBatch, bool) {
	for _, job := range s.Jobs() {
		if job.ID == id {
			return job, true
		}
	}
	return StoredBatch{}, false
}

// Update changes a job.
func (s *BatchStore) Update(id string, change func(job *StoredBatch)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, job := range s.jobs {
		if job.ID == id {
			change(job)
		}
	}
}

// Remove removes a job, and reports whether there was one.
func (s *BatchStore) Remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, job := range s.jobs {
		if job.ID == id {
			s.jobs = append(s.jobs[:i], s.jobs[i+1:]...)
			return true
		}
	}
	return false
}

// Put stores a file and returns its id. With an id it replaces that file.
func (s *BatchStore) Put(id, text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		s.files = make(map[string]string)
	}
	if id == "" {
		s.next++
		id = fmt.Sprintf("file-%d", s.next)
	}
	s.files[id] = text
	return id
}

// File returns a file.
func (s *BatchStore) File(id string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.files[id]
	return text, ok
}

// Drop removes a file, and reports whether there was one.
func (s *BatchStore) Drop(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.files[id]
	delete(s.files, id)
	return ok
}

// Files returns the number of files.
func (s *BatchStore) Files() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.files)
}

// Results returns lines of results as one text.
func Results(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}
