package provider

import "slices"

// Target is a model of a provider, written "provider/model".
type Target struct{ Provider, Model string }

// String returns the target in its configured form.
func (t Target) String() string { return t.Provider + "/" + t.Model }

// Operation is a kind of completion, by its name in the ledger.
type Operation string

// The operations. A chat with an image in it is planned as vision.
const (
	OperationChat       Operation = "chat"
	OperationEmbeddings Operation = "embeddings"
	OperationVision     Operation = "vision"
	OperationImages     Operation = "images"
)

var operations = []Operation{OperationChat, OperationEmbeddings, OperationVision, OperationImages}

// Operations returns all operations, in the order in which documents list them.
func Operations() []Operation { return slices.Clone(operations) }

// Set returns the set of this operation alone, or the empty set if it is unknown.
func (o Operation) Set() OperationSet {
	switch o {
	case OperationChat:
		return 1 << 0
	case OperationEmbeddings:
		return 1 << 1
	case OperationVision:
		return 1 << 2
	case OperationImages:
		return 1 << 3
	}
	return 0
}

// OperationSet is a set of operations. The zero value is empty.
type OperationSet uint8

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
