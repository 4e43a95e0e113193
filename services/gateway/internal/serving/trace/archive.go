package trace

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// maxPage bounds the contents that are opened for one page of traces, in bytes: redaction reads all of them.
const maxPage = 4 << 20

// Archive reads recorded requests. Safe for concurrent use.
type Archive struct {
	store Store
	keys  *Keys // nil: no content can be read
	// redactor returns the redactor of the policy in force.
	redactor func() *redact.Redactor
	log      *slog.Logger
}

// NewArchive returns an Archive. Without keys it reads no content.
func NewArchive(store Store, keys *Keys, redactor func() *redact.Redactor, log *slog.Logger) *Archive {
	return &Archive{store, keys, redactor, log}
}

// Shown is a record with its content, redacted.
type Shown struct {
	Record
	// Request and Response are nil where they were not kept.
	Request, Response json.RawMessage
	Metadata          map[string]string
	Redactions        []string
	Truncated         bool
	Form              string
}

// List returns a page with redacted content. more reports whether further records follow the last one; a page is
// shorter than its limit where the contents are large.
func (a *Archive) List(ctx context.Context, f Filter) (page []Shown, more bool, err error) {
	records, more, err := a.records(ctx, f)
	if err != nil || len(records) == 0 {
		return nil, false, err
	}
	for i, total := 0, 0; i < len(records); i++ {
		if content := records[i].Content; content != nil {
			total += content.Size
		}
		if total > maxPage && i > 0 {
			records, more = records[:i], true
		}
	}
	sealed, err := a.store.Sealed(ctx, records)
	if err != nil {
		return nil, false, err
	}
	opened := 0
	for i := range records {
		packet := a.open(ctx, &records[i], sealed)
		if opened += packet.size(); opened > maxPage && i > 0 {
			return page, true, nil // Only unpacked the contents exceed maxPage.
		}
		page = append(page, a.show(records[i], packet))
	}
	return page, more, nil
}

// Lineage returns a page of records without content. more reports whether further records follow the last one.
func (a *Archive) Lineage(ctx context.Context, f Filter) (page []Record, more bool, err error) {
	return a.records(ctx, f)
}

func (a *Archive) records(ctx context.Context, f Filter) (page []Record, more bool, err error) {
	limit := f.Limit
	f.Limit++
	if page, err = a.store.List(ctx, f, time.Now()); err != nil {
		return nil, false, err
	}
	if len(page) > limit {
		return page[:limit], true, nil
	}
	return page, false, nil
}

// Get returns the latest record of a request id of an organization. The error is ErrNotFound where there is none.
func (a *Archive) Get(ctx context.Context, organization, request string) (Record, error) {
	found, err := a.store.Latest(ctx, organization, request, 1, time.Now())
	if err != nil {
		return Record{}, err
	}
	if len(found) == 0 {
		return Record{}, ErrNotFound
	}
	return found[0], nil
}

// maxOrganizations bounds the number of organizations that Latest reads for one request id.
const maxOrganizations = 51

// Latest returns the latest record of a request id of each organization, newest first: callers choose the ids, so that
// several organizations may have used one. Where an organization is named only its record is returned. The error is
// ErrNotFound where there is none.
func (a *Archive) Latest(ctx context.Context, organization, request string) ([]Record, error) {
	records, err := a.store.Latest(ctx, organization, request, maxOrganizations, time.Now())
	if err == nil && len(records) == 0 {
		err = ErrNotFound
	}
	return records, err
}

// Execution is a captured request with its record and its content, not redacted.
type Execution struct {
	Record
	Packet
}

// Execution returns a captured request of an organization. The error is ErrNotFound where it was not captured, or its
// content is no longer kept.
func (a *Archive) Execution(ctx context.Context, organization, request string) (*Execution, error) {
	record, err := a.Get(ctx, organization, request)
	if err != nil {
		return nil, err
	}
	sealed, err := a.store.Sealed(ctx, []Record{record})
	if err != nil {
		return nil, err
	}
	packet := a.open(ctx, &record, sealed)
	if packet == nil {
		return nil, ErrNotFound
	}
	return &Execution{Record: record, Packet: *packet}, nil
}

// Replays returns the ids of the requests that repeated one, newest first.
func (a *Archive) Replays(ctx context.Context, organization, request string, limit int) ([]string, error) {
	found, err := a.store.List(ctx, Filter{Organization: organization, ReplayOf: request, Limit: limit}, time.Now())
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].RequestID
	}
	return ids, nil
}

// open returns a record's content, unsealed; nil where there is none that can be read.
func (a *Archive) open(ctx context.Context, record *Record, sealed map[uuid.UUID][]byte) *Packet {
	text, ok := sealed[record.ID]
	if !ok || a.keys == nil {
		return nil
	}
	packet, err := a.keys.open(record.Organization, record.ID, record.Content.Key, text)
	if err != nil {
		a.log.WarnContext(ctx, "the content of a trace could not be opened", slog.String("trace_request_id", record.RequestID), slog.String("error", err.Error()))
		return nil
	}
	return packet
}

// show returns a record with its packet redacted. A nil packet leaves the content empty.
func (a *Archive) show(record Record, packet *Packet) Shown {
	shown := Shown{Record: record}
	if packet == nil {
		return shown
	}
	found, redactor := redact.Kinds{}, a.redactor()
	shown.Form, shown.Truncated = packet.Form, record.Content.Truncated
	request := packet.Request
	if record.Operation == string(provider.OperationEmbeddings) {
		request = redact.Tokens(request, found)
	}
	shown.Request = redactor.JSON(request, found)
	shown.Response = redactor.JSON(packet.Response, found)
	if len(packet.Metadata) > 0 {
		shown.Metadata = make(map[string]string, len(packet.Metadata))
		for name, value := range packet.Metadata {
			shown.Metadata[redactor.Text(name, found)] = redactor.Named(name, value, found)
		}
	}
	shown.Redactions = found.Sorted()
	return shown
}

// eraseBatch is the number of the store's rows that one statement erases contents from.
const eraseBatch = 100

// Erase deletes the contents of all requests of an organization that have begun. Records stay: they hold no content.
func (a *Archive) Erase(ctx context.Context, organization string) error {
	until := time.Now()
	for {
		n, err := a.store.Erase(ctx, organization, until, eraseBatch)
		if err != nil || n < eraseBatch {
			return err
		}
	}
}
