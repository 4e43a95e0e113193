module switchyard.dev/services/gateway

go 1.26.8

require (
	github.com/google/go-cmp v0.7.0
	switchyard.dev/gen v0.0.0
	switchyard.dev/services/platform v0.0.0
)

replace (
	switchyard.dev/gen => ../../gen
	switchyard.dev/services/platform => ../platform
)
