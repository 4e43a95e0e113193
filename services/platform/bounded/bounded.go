// Package bounded reads files that settings and flags name, without taking more memory than a file of its kind needs: a
// path may name a device without an end, or the wrong file.
package bounded

import (
	"crypto/tls"
	"fmt"
	"io"
	"os"
)

// MaxFile bounds a file of settings, such as a policy, tokens or certificates, in bytes. Documents of YAML take some 15
// times their size in memory while they are read.
const MaxFile = 8 << 20

// ReadFile returns the content of a file of at most so many bytes. Pipes and devices are read until they end or exceed
// the bound. The error names the path, and the bound if the file is larger.
func ReadFile(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > most {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, most)
	}
	return text, nil
}

// ReadKeyPair returns the certificate and the private key in two files in PEM, of at most MaxFile bytes each.
func ReadKeyPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := ReadFile(certFile, MaxFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := ReadFile(keyFile, MaxFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}
