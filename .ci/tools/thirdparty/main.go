// Command thirdparty writes the .proto files that Switchyard's contracts
// import from others (google/api, validate, openapiv2 options), and those of
// error details (google/rpc), which clients read, into a folder.
// It prints them from the descriptors registered by the Go packages that the
// generated code links, so that text and linked code can't differ and nobody's
// files are copied into the repository. `make third-party` calls it.
package main

import (
	"fmt"
	"os"
	"strings"

	_ "github.com/envoyproxy/protoc-gen-validate/validate"
	_ "github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-openapiv2/options"
	"github.com/jhump/protoreflect/v2/protoprint"
	_ "google.golang.org/genproto/googleapis/api/annotations"
	_ "google.golang.org/genproto/googleapis/api/httpbody"
	_ "google.golang.org/genproto/googleapis/api/visibility"
	_ "google.golang.org/genproto/googleapis/rpc/errdetails"
	_ "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: thirdparty FOLDER")
		os.Exit(2)
	}
	if err := export(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "thirdparty:", err)
		os.Exit(1)
	}
}

// export prints every registered file outside google/protobuf (protoc and buf
// carry those themselves).
func export(folder string) error {
	var files []protoreflect.FileDescriptor
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(file.Path(), "google/protobuf/") {
			files = append(files, file)
		}
		return true
	})
	printer := protoprint.Printer{}
	if err := printer.PrintProtosToFileSystem(files, folder); err != nil {
		return fmt.Errorf("print protos to %s: %w", folder, err)
	}
	return nil
}
