package secretref

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// schemes are the secret managers with a driver.
var schemes = []string{"awssecretsmanager", "awsparamstore", "gcpsecretmanager"}

// manager is a location in a secret manager from which an operator allows secrets to be read.
type manager struct {
	scheme string
	scope  scope
	// query holds the operator's parameters, with the question mark.
	query string
}

func newManager(text string) (manager, error) {
	if !driversBuilt {
		return manager{}, errors.New("this build has no drivers of secret managers; build it without the tag nocloud")
	}
	before, query, _ := strings.Cut(text, "?")
	scheme, rest, ok := strings.Cut(before, "://")
	if !ok || !slices.Contains(schemes, scheme) {
		return manager{}, fmt.Errorf("want a URL that begins with %s://", strings.Join(schemes, ":// or "))
	}
	s, err := newScope(rest)
	if err != nil {
		return manager{}, err
	}
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return manager{}, errors.New("the parameters after ? can't be read")
	}
	parameters.Set("decoder", "string")
	return manager{scheme: scheme, scope: s, query: "?" + parameters.Encode()}, nil
}
