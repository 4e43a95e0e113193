package batchjob

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// settle bills a job's results by request and stores them. It may be repeated: the ledger skips rows that it has, and the
// files are written anew.
func (m *Manager) settle(ctx context.Context, j *Job) error {
	v, err := m.present(ctx, j)
	if err != nil {
		return m.unwatched(ctx, j, err)
	}
	requests, err := m.requests(ctx, j)
	if err != nil {
		return err
	}
	s := &settlement{
		manager: m, job: j, vendor: v, requests: requests, seen: make([]bool, len(requests)), now: m.Now(),
		mark: markOf(j) + "-", prices: m.Fleet().Prices, bill: Bill{Results: make(map[provider.BatchOutcome]int)},
	}
	s.bill.Fingerprint = j.Fingerprint
	bounded, cancel := context.WithTimeout(ctx, resultTime)
	defer cancel()
	var unread error
	err = v.runner.BatchResults(bounded, v.credential, m.jobOf(ctx, j, v, &unread), &j.Report, func(r provider.BatchResult) error { return s.add(ctx, r) })
	if own := errors.Join(s.err, unread); own != nil {
		return own
	}
	if err != nil {
		return m.unwatched(ctx, j, err)
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	files, err := s.close(ctx)
	if err != nil {
		return err
	}
	j.Bill = s.bill
	return m.finish(ctx, j, j.Report.Status, files)
}

// settlement is the work on the results of one job.
type settlement struct {
	manager  *Manager
	job      *Job
	vendor   *vendor
	requests []Request
	// seen are the requests whose result was read: a vendor could repeat one.
	seen   []bool
	now    time.Time
	mark   string
	prices inference.Prices
	bill   Bill

	entries           []ledger.Entry
	answers, failures *file.Writer
	line              []byte
	err               error
}

// entriesAtOnce is how many ledger rows are committed together.
const entriesAtOnce = 512

// add takes one result. Results of requests that the job doesn't have are the vendor's mistake, and left out.
func (s *settlement) add(ctx context.Context, r provider.BatchResult) error {
	n, ok := s.number(r.CustomID)
	if !ok {
		return nil
	}
	s.seen[n] = true
	s.bill.Results[r.Outcome]++
	if r.Outcome == provider.BatchAnswered {
		s.entries = append(s.entries, s.entry(n, &r))
		if len(s.entries) == entriesAtOnce {
			s.err = s.flush(ctx)
		}
	}
	if s.err == nil && !s.job.Erased {
		s.err = s.write(ctx, n, &r)
	}
	return s.err
}

// number returns the number of the request that a vendor's id names, unless its result was read before.
func (s *settlement) number(id string) (int, bool) {
	text, ok := strings.CutPrefix(id, s.mark)
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 0 || n >= len(s.requests) || s.seen[n] || strconv.Itoa(n) != text {
		return 0, false
	}
	return n, true
}

// entry returns the ledger entry of an answered request, and adds it to the bill.
func (s *settlement) entry(n int, r *provider.BatchResult) ledger.Entry {
	j := s.job
	request := &s.requests[n]
	bound := inference.BatchBound{Input: request.Input, MostInput: request.MostInput, MostOutput: request.MostOutput}
	usage, state, reported := inference.BatchUsage(r.Usage, bound, r.Written)
	cost := s.prices.CostInBatch(s.vendor.target.Provider, s.vendor.target.Model, s.now, usage)
	s.bill.Usage.Add(usage)
	s.bill.Cost = s.bill.Cost.Plus(cost.Amount)
	s.bill.Estimated = s.bill.Estimated || state != ledger.StateReported || !cost.Known
	s.bill.Price = cost.Version
	return ledger.Entry{
		ID: entryID(j.Reservation, n), RequestID: j.ID, Organization: j.Organization, Key: j.Key, KeyOrigin: j.KeyOrigin, User: j.User, Service: j.Service,
		Run: j.Run, Tags: j.Tags,
		Operation: string(OperationOf(j.API)), RequestedModel: j.Model,
		Provider: s.vendor.target.Provider, Model: s.vendor.target.Model, Credential: s.vendor.target.Source, Fingerprint: j.Fingerprint,
		Attempts: 1, Usage: usage, Reported: reported, State: state, Cost: cost.Amount, PriceVersion: cost.Version, Outcome: ledger.OutcomeCompleted,
		StartedAt: j.CreatedAt, EndedAt: s.now,
	}
}

// entryID returns the id of the ledger row of a request: the same for each try.
func entryID(job uuid.UUID, n int) uuid.UUID {
	return uuid.NewSHA1(job, binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// flush commits the entries that wait.
func (s *settlement) flush(ctx context.Context) error {
	if len(s.entries) == 0 {
		return nil
	}
	if err := s.manager.Ledger.Append(ctx, s.entries); err != nil {
		return fmt.Errorf("bill: %w", err)
	}
	s.entries = s.entries[:0]
	return nil
}

// write stores a result with the caller's own id.
func (s *settlement) write(ctx context.Context, n int, r *provider.BatchResult) error {
	line, err := sjson.SetBytes(r.Line, "custom_id", s.requests[n].ID)
	if err == nil && r.Outcome == provider.BatchAnswered {
		line, err = s.ownAnswer(line)
	}
	if err != nil {
		return apierr.Internal(err)
	}
	to, err := s.file(ctx, r.Outcome == provider.BatchAnswered || s.job.Form == FormAnthropic)
	if err != nil {
		return err
	}
	s.line = append(append(s.line[:0], line...), '\n')
	return to.Write(ctx, s.line)
}

// ownAnswer returns the line of an answered request with the caller's name of the model, and without the credentials of
// tools' servers that the vendor repeats.
func (s *settlement) ownAnswer(line []byte) ([]byte, error) {
	at := answerPath[s.job.Form]
	answer := gjson.GetBytes(line, at)
	if !answer.IsObject() {
		return line, nil
	}
	var err error
	for _, name := range []string{"tools", "prompt"} {
		if value := answer.Get(name); value.Exists() && err == nil {
			line, err = sjson.SetRawBytes(line, at+"."+name, redact.ServerCredentials([]byte(value.Raw)))
		}
	}
	if err == nil && s.job.Model != "" {
		line, err = sjson.SetBytes(line, at+".model", s.job.Model)
	}
	return line, err
}

// answerPath is where a result holds the answer, whose member "model" names the model.
var answerPath = map[Form]string{FormOpenAI: "response.body", FormAnthropic: "result.message"}

// file returns the file of the answers or the one of the errors, and begins it.
func (s *settlement) file(ctx context.Context, answers bool) (*file.Writer, error) {
	j, of := s.job, &s.failures
	f := file.File{ID: j.Errors, Name: j.ID + "_error.jsonl", Purpose: file.PurposeBatchOutput, CreatedAt: s.now}
	if answers {
		of, f.ID, f.Name = &s.answers, j.Output, j.ID+"_output.jsonl"
	}
	if j.Form == FormAnthropic {
		f.Purpose = file.PurposeMessageBatchOutput
	}
	if j.OutputLife > 0 {
		f.ExpiresAt = s.now.Add(j.OutputLife)
	}
	if *of == nil {
		begun, err := s.manager.Files.Begin(ctx, j.Scope, f)
		if err != nil {
			return nil, err
		}
		*of = begun
	}
	return *of, nil
}

// close stores the rest of the files and returns them.
func (s *settlement) close(ctx context.Context) (files []file.File, err error) {
	for _, w := range []*file.Writer{s.answers, s.failures} {
		if w == nil {
			continue
		}
		f, err := w.Close(ctx)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// OperationOf returns the operation of the requests of a job, by the path of their API.
func OperationOf(api string) provider.Operation {
	switch api {
	case "/v1/embeddings":
		return provider.OperationEmbeddings
	case "/v1/completions":
		return provider.OperationCompletions
	case "/v1/moderations":
		return provider.OperationModerations
	}
	return provider.OperationChat
}
