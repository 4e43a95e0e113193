package main

// references returns the documents that are made from the contracts and the code, by path.
func references(root string) (map[string][]byte, error) {
	return map[string][]byte{}, nil
}
