module switchyard.dev/services/gateway

go 1.26.8

require (
	github.com/google/go-cmp v0.7.0
	go.yaml.in/yaml/v3 v3.0.5
	switchyard.dev/services/platform v0.0.0
)

require (
	golang.org/x/sys v0.49.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b // indirect
	google.golang.org/grpc v1.84.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace (
	switchyard.dev/gen => ../../gen
	switchyard.dev/services/platform => ../platform
)
