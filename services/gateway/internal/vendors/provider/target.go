package provider

import "slices"

// Target is a model of a provider, written "provider/model".
type Target struct{ Provider, Model string }

// String returns the target in its configured form.
func (t Target) String() string { return t.Provider + "/" + t.Model }

// Operation is a kind of completion, by its name in the ledger.
type Operation string

// The operations of the contract. A chat with an image in it is planned as vision.
const (
	OperationChat       Operation = "chat"
	OperationEmbeddings Operation = "embeddings"
	OperationVision     Operation = "vision"
	OperationImages     Operation = "images"
)

// The operations that are only relayed: calls of vendors' APIs that the contract has no form of its own for. Completions
// are those before chats, of a text; transcriptions include translations.
const (
	OperationCompletions    Operation = "completions"
	OperationModerations    Operation = "moderations"
	OperationSpeech         Operation = "speech"
	OperationTranscriptions Operation = "transcriptions"
	OperationRerank         Operation = "rerank"
)

var operations = []Operation{
	OperationChat, OperationEmbeddings, OperationVision, OperationImages,
	OperationCompletions, OperationModerations, OperationSpeech, OperationTranscriptions, OperationRerank,
}

// contracted is how many of them the contract has a form for; they come first.
const contracted = 4

// Operations returns all operations, in the order in which documents list them.
func Operations() []Operation { return slices.Clone(operations) }

// Contracted returns the set of the operations of the contract.
func Contracted() OperationSet { return SetOf(operations[:contracted]...) }

// Set returns the set of this operation alone, or the empty set if it is unknown.
func (o Operation) Set() OperationSet {
	if i := slices.Index(operations, o); i >= 0 {
		return 1 << i
	}
	return 0
}

// OperationSet is a set of operations. The zero value is empty.
type OperationSet uint16

// SetOf returns the set of the listed operations; unknown ones are left out.
func SetOf(list ...Operation) OperationSet {
	var set OperationSet
	for _, operation := range list {
		set |= operation.Set()
	}
	return set
}

// Has reports whether the set holds an operation.
func (s OperationSet) Has(operation Operation) bool { return s&operation.Set() != 0 }

// List returns the operations of the set, in the order of Operations.
func (s OperationSet) List() []Operation {
	var list []Operation
	for _, operation := range operations {
		if s.Has(operation) {
			list = append(list, operation)
		}
	}
	return list
}
