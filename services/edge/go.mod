module switchyard.dev/services/edge

go 1.26.8

replace (
	switchyard.dev/gen => ../../gen
	switchyard.dev/services/platform => ../platform
)
