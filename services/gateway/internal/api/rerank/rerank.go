// Package rerank reads calls of rerankers for the gateway's callers: of Cohere's, and of the form of Jina's, which Voyage's
// and vLLM's share. Package api serves them.
package rerank

import (
	"fmt"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/cohere"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/platform/apierr"
)

// maxDocuments bounds the documents of one call.
const maxDocuments = 10_000

// Cohere counts a search for every searchDocuments documents, and splits a document into pieces of about pieceBytes. Source:
// Cohere documentation, "Rerank" and "How does Cohere's pricing work".
const (
	searchDocuments = 100
	pieceBytes      = 500
)

// aroundDocument is what a reranker may count around the query and a document, in tokens.
const aroundDocument = 16

// Cohere reads a call of Cohere's reranker.
func Cohere(s dialect.Source) (*dialect.Call, error) {
	return read(s, cohere.DialectName, cohere.PathRerank)
}

// Jina reads a call in the form of Jina's reranker.
func Jina(s dialect.Source) (*dialect.Call, error) {
	return read(s, openai.DialectName, openai.PathRerank)
}

func read(s dialect.Source, api, path string) (*dialect.Call, error) {
	o, err := dialect.Parse(s.Body)
	if err != nil {
		return nil, err
	}
	if !o.Has("query") {
		return nil, apierr.Invalid("query", "is required")
	}
	query := o.Raw("query")
	documents, err := dialect.Elements("documents", o.Raw("documents"))
	switch {
	case err != nil:
		return nil, err
	case len(documents) == 0 || len(documents) > maxDocuments:
		return nil, apierr.Invalid("documents", fmt.Sprintf("must hold 1 to %d documents", maxDocuments))
	}
	c := &dialect.Call{Relay: provider.Relay{Operation: provider.OperationRerank, API: api, Path: path}}
	count, size, pieces := int64(len(documents)), 0, int64(0)
	for _, document := range documents {
		size += len(document)
		pieces += int64(len(document)/pieceBytes) + 1
	}
	c.Relay.Estimate = provider.Estimate(size+len(documents)*len(query), 0)
	c.Relay.Estimate.Searches = (count + searchDocuments - 1) / searchDocuments
	c.Relay.Most = provider.Usage{
		Input:    int64(size) + count*(int64(len(query))+aroundDocument),
		Output:   int64(len(s.Body)) >> 10, // The answer may repeat the documents.
		Searches: (pieces + searchDocuments - 1) / searchDocuments,
	}
	err = c.Finish(o, s.Body, "query", "documents")
	c.Relay.Stream = false
	return c, err
}
