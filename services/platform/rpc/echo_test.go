package rpc_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// The contract under test is built here, so that platform needs no generated code: options for the role and raw JSON,
// and an echo service.
const optionsText = `
name: "rpctest/options.proto" package: "rpctest" syntax: "proto3" dependency: "google/protobuf/descriptor.proto"
enum_type { name: "Role"
  value { name: "ROLE_UNSPECIFIED" number: 0 } value { name: "ROLE_PUBLIC" number: 1 }
  value { name: "ROLE_SERVICE" number: 2 } value { name: "ROLE_OPERATOR" number: 3 } }
extension { name: "role" number: 60001 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".rpctest.Role" extendee: ".google.protobuf.MethodOptions" json_name: "role" }
extension { name: "raw_json" number: 60002 label: LABEL_OPTIONAL type: TYPE_BOOL extendee: ".google.protobuf.FieldOptions" json_name: "rawJson" }`

const echoText = `
name: "rpctest/echo.proto" package: "rpctest" syntax: "proto3"
message_type { name: "Echo"
  field { name: "user_name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "userName" }
  field { name: "payload" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES json_name: "payload" }
  field { name: "items" number: 3 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".rpctest.Echo" json_name: "items" }
  field { name: "count" number: 4 label: LABEL_OPTIONAL type: TYPE_INT32 json_name: "count" }
  field { name: "parts" number: 5 label: LABEL_REPEATED type: TYPE_BYTES json_name: "parts" } }
service { name: "EchoService"
  method { name: "Echo" input_type: ".rpctest.Echo" output_type: ".rpctest.Echo" }
  method { name: "Admin" input_type: ".rpctest.Echo" output_type: ".rpctest.Echo" }
  method { name: "Open" input_type: ".rpctest.Echo" output_type: ".rpctest.Echo" }
  method { name: "Watch" input_type: ".rpctest.Echo" output_type: ".rpctest.Echo" server_streaming: true } }
service { name: "BareService" method { name: "NoRole" input_type: ".rpctest.Echo" output_type: ".rpctest.Echo" } }`

type contract struct {
	role, rawJSON protoreflect.ExtensionType
	echo          protoreflect.MessageDescriptor
	service       protoreflect.ServiceDescriptor
}

var echoContract = makeContract()

func makeContract() contract {
	options := makeFile(optionsText, nil)
	c := contract{
		role:    dynamicpb.NewExtensionType(options.Extensions().ByName("role")),
		rawJSON: dynamicpb.NewExtensionType(options.Extensions().ByName("raw_json")),
	}
	file := makeFile(echoText, func(f *descriptorpb.FileDescriptorProto) {
		for i, m := range f.GetService()[0].GetMethod() {
			m.Options = &descriptorpb.MethodOptions{}
			role := []protoreflect.EnumNumber{2, 3, 1, 2}[i]
			proto.SetExtension(m.Options, c.role, role)
			if path := []string{"/v1/echo/{user_name}", "/v1/admin", "/v1/open", ""}[i]; path != "" {
				proto.SetExtension(m.Options, annotations.E_Http, &annotations.HttpRule{Pattern: &annotations.HttpRule_Post{Post: path}, Body: "*"})
			}
		}
		for _, i := range []int{1, 4} {
			f.MessageType[0].Field[i].Options = &descriptorpb.FieldOptions{}
			proto.SetExtension(f.GetMessageType()[0].GetField()[i].GetOptions(), c.rawJSON, true)
		}
	})
	c.echo, c.service = file.Messages().ByName("Echo"), file.Services().ByName("EchoService")
	return c
}

func makeFile(text string, change func(*descriptorpb.FileDescriptorProto)) protoreflect.FileDescriptor {
	var f descriptorpb.FileDescriptorProto
	if err := prototext.Unmarshal([]byte(text), &f); err != nil {
		panic(err)
	}
	if change != nil {
		change(&f)
	}
	file, err := protodesc.NewFile(&f, protoregistry.GlobalFiles)
	if err == nil {
		err = protoregistry.GlobalFiles.RegisterFile(file)
	}
	if err != nil {
		panic(err)
	}
	return file
}

// answer is how the echo service answers a request.
type answer func(ctx context.Context, in *dynamicpb.Message) (*dynamicpb.Message, error)

func echoDesc() *grpc.ServiceDesc {
	desc := &grpc.ServiceDesc{ServiceName: "rpctest.EchoService", HandlerType: (*any)(nil)}
	for _, name := range []string{"Echo", "Admin", "Open"} {
		desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: name, Handler: unaryHandler(name)})
	}
	desc.Streams = []grpc.StreamDesc{{StreamName: "Watch", ServerStreams: true, Handler: func(srv any, stream grpc.ServerStream) error {
		in := dynamicpb.NewMessage(echoContract.echo)
		if err := stream.RecvMsg(in); err != nil {
			return err
		}
		out, err := srv.(answer)(stream.Context(), in)
		if err != nil {
			return err
		}
		return stream.SendMsg(out)
	}}}
	return desc
}

func unaryHandler(name string) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		in := dynamicpb.NewMessage(echoContract.echo)
		if err := decode(in); err != nil {
			return nil, err
		}
		handler := func(ctx context.Context, req any) (any, error) {
			out, err := srv.(answer)(ctx, req.(*dynamicpb.Message))
			if err != nil {
				return nil, err
			}
			return out, nil
		}
		return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/rpctest.EchoService/" + name}, handler)
	}
}

// transcode registers a POST path as generated gateway code does.
func transcode(t *testing.T, mux *runtime.ServeMux, conn grpc.ClientConnInterface, path, method string) {
	t.Helper()
	err := mux.HandlePath(http.MethodPost, path, func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		_, out := runtime.MarshalerForRequest(mux, r)
		ctx, err := runtime.AnnotateContext(r.Context(), mux, r, method)
		in, reply := dynamicpb.NewMessage(echoContract.echo), dynamicpb.NewMessage(echoContract.echo)
		var md runtime.ServerMetadata
		if err == nil {
			if err = out.NewDecoder(r.Body).Decode(in); err != nil && !errors.Is(err, io.EOF) {
				err = status.Errorf(codes.InvalidArgument, "%v", err)
			} else {
				err = nil
			}
		}
		if name, ok := params["user_name"]; ok && err == nil {
			in.Set(echoContract.echo.Fields().ByName("user_name"), protoreflect.ValueOfString(name))
		}
		if err == nil {
			err = conn.Invoke(ctx, method, in, reply, grpc.Header(&md.HeaderMD), grpc.Trailer(&md.TrailerMD))
		}
		ctx = runtime.NewServerMetadataContext(ctx, md)
		if err != nil {
			runtime.HTTPError(ctx, mux, out, w, r, err)
			return
		}
		runtime.ForwardResponseMessage(ctx, mux, out, w, r, reply, mux.GetForwardResponseOptions()...)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func outgoing(ctx context.Context, pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}
