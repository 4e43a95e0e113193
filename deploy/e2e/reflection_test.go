//go:build e2e

package e2e_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Reflection lists every method, streams included, and has the descriptors of all messages, so that a client needs no
// contract.
func TestReflectionHasEveryMethod(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, c := range serviceContracts() {
		t.Run(string(c.member), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
			defer cancel()
			stream, err := reflectionpb.NewServerReflectionClient(h.grpc(t, c.member)).ServerReflectionInfo(ctx)
			if err != nil {
				t.Fatal(err)
			}
			ask := func(symbol string) (files []*descriptorpb.FileDescriptorProto) {
				t.Helper()
				err := stream.Send(&reflectionpb.ServerReflectionRequest{
					MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol},
				})
				if err != nil {
					t.Fatal(err)
				}
				answer, err := stream.Recv()
				if err != nil || answer.GetErrorResponse() != nil {
					t.Fatalf("reflection of %s: answer %v, error %v", symbol, answer.GetErrorResponse(), err)
				}
				for _, text := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
					file := new(descriptorpb.FileDescriptorProto)
					if err := proto.Unmarshal(text, file); err != nil {
						t.Fatal(err)
					}
					files = append(files, file)
				}
				return files
			}
			for _, name := range c.services {
				want, messages := methodsOf(t, name)
				var got []string
				for _, file := range ask(name) {
					for _, service := range file.GetService() {
						if file.GetPackage()+"."+service.GetName() != name {
							continue
						}
						for _, method := range service.GetMethod() {
							got = append(got, method.GetName())
						}
					}
				}
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: methods (-contract +reflection):\n%s", name, diff)
				}
				for _, message := range messages {
					ask(message)
				}
			}
		})
	}
}

// methodsOf returns a service's methods in the contract, and their request and response messages.
func methodsOf(t *testing.T, service string) (methods, messages []string) {
	t.Helper()
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		t.Fatal(err)
	}
	descriptor, ok := found.(protoreflect.ServiceDescriptor)
	if !ok || descriptor.Methods().Len() == 0 {
		t.Fatalf("%s is no service with methods", service)
	}
	for i := range descriptor.Methods().Len() {
		method := descriptor.Methods().Get(i)
		methods = append(methods, string(method.Name()))
		messages = append(messages, string(method.Input().FullName()), string(method.Output().FullName()))
	}
	slices.Sort(methods)
	slices.Sort(messages)
	return methods, slices.Compact(messages)
}
