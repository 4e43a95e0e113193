package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// readContract reads an image, which is a FileDescriptorSet.
func readContract(image string) (*protoregistry.Files, error) {
	text, err := os.ReadFile(image)
	if err != nil {
		return nil, err
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("%s: %w", image, err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", image, err)
	}
	return files, nil
}

// errorCode is a value of the contract's ErrorReason, as JSON errors have it.
type errorCode struct {
	Code    string `json:"code"`
	Status  string `json:"status,omitempty"` // of HTTP; empty for one within a stream
	Meaning string `json:"meaning"`
}

// described matches the comment of an error's code: the status, unless it has none, and the meaning.
var described = regexp.MustCompile(`^(?:(\d{3}(?: or \d{3})?): )?(.+)$`)

// errorCodes returns the error codes that are sent, in the order of the contract.
func errorCodes(contract *protoregistry.Files) (codes []errorCode, err error) {
	const name = "switchyard.errors.v1.ErrorReason"
	found, err := contract.FindDescriptorByName(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	values := found.(protoreflect.EnumDescriptor).Values()
	for i := 1; i < values.Len(); i++ {
		value := values.Get(i)
		comment := value.ParentFile().SourceLocations().ByDescriptor(value).LeadingComments
		parts := described.FindStringSubmatch(strings.Join(strings.Fields(comment), " "))
		if parts == nil {
			return nil, fmt.Errorf("%s: a comment is required", value.FullName())
		}
		code := strings.ToLower(strings.TrimPrefix(string(value.Name()), "ERROR_REASON_"))
		codes = append(codes, errorCode{code, parts[1], parts[2]})
	}
	return codes, nil
}
