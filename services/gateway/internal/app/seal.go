package app

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/custody/sealing"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/secret"
)

const byokUsage = `gateway byok keygen [-kem x25519|mlkem768-x25519]
    generates a sealing key; write it to a file NAME.key in GATEWAY_SEALING_KEYS_DIR
gateway byok seal -organization ID -provider NAME (-gateway URL [-token-file FILE] | -public-key FILE) [-key-file FILE]
    reads a provider's key from standard input or a file, and prints the body of POST /v1/byok/config`

// maxKey bounds the size in bytes of a provider's key and of a sealing key.
const maxKey = 8 << 10

// fetchTimeout bounds the request for a gateway's sealing key.
const fetchTimeout = 10 * time.Second

// Byok runs `gateway byok`. It needs no settings and no database. A provider's key is never an argument, since other
// users of a machine can see arguments.
func Byok(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("want keygen or seal\n" + byokUsage)
	}
	switch args[0] {
	case "keygen":
		return generateSealingKey(args[1:], out)
	case "seal":
		return sealCredential(ctx, args[1:], in, out)
	}
	return fmt.Errorf("byok %q: want keygen or seal\n%s", args[0], byokUsage)
}

// byokFlags parses flags. It refuses further arguments without printing them: one may be a key.
func byokFlags(flags *flag.FlagSet, args []string) error {
	flags.SetOutput(io.Discard)
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return errors.New("byok " + flags.Name() + ": wrong arguments; a key is read from standard input or a file\n" + byokUsage)
	}
	return nil
}

func generateSealingKey(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("keygen", flag.ContinueOnError)
	kem := flags.String("kem", sealing.X25519, "")
	if err := byokFlags(flags, args); err != nil {
		return err
	}
	key, err := sealing.Generate(*kem, time.Now())
	if err != nil {
		return err
	}
	text, err := key.Text()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, text.Reveal())
	return err
}

// publicKey is the response of GET /v1/byok/sealing-key.
type publicKey struct {
	KeyID     string `json:"key_id"`
	PublicKey []byte `json:"public_key"`
	KEM       uint16 `json:"kem_id"`
	KDF       uint16 `json:"kdf_id"`
	AEAD      uint16 `json:"aead_id"`
	Info      string `json:"info_template"`
}

// sealedProvider returns the name that a credential is sealed to: a provider's in lower case, or that of a tool server,
// given as "mcp/" and its id.
func sealedProvider(name string) string {
	if id, ok := strings.CutPrefix(name, toolserver.SealedTo("")); ok {
		return toolserver.SealedTo(id)
	}
	return strings.ToLower(name)
}

func sealCredential(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("seal", flag.ContinueOnError)
	organization, provider := flags.String("organization", "", ""), flags.String("provider", "", "")
	gateway, tokenFile := flags.String("gateway", "", ""), flags.String("token-file", "", "")
	publicFile, keyFile := flags.String("public-key", "", ""), flags.String("key-file", "", "")
	if err := byokFlags(flags, args); err != nil {
		return err
	}
	name := sealedProvider(*provider)
	if *organization == "" && !strings.HasPrefix(name, toolserver.SealedTo("")) || name == "" || (*gateway == "") == (*publicFile == "") {
		return errors.New("byok seal: -organization, -provider and one of -gateway and -public-key are required\n" + byokUsage)
	}
	public, err := readPublicKey(ctx, *gateway, secret.File(*tokenFile), *publicFile)
	if err != nil {
		return err
	}
	credential, err := readCredential(*keyFile, in)
	if err != nil {
		return err
	}
	sealed, err := public.Seal(*organization, name, credential)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"organization_id": *organization, "provider": name,
		"sealed": map[string]string{"key_id": public.ID, "ciphertext": base64.StdEncoding.EncodeToString(sealed)},
	})
	if err != nil {
		return fmt.Errorf("write body: %w", err)
	}
	_, err = fmt.Fprintf(out, "%s\n", body)
	return err
}

func readPublicKey(ctx context.Context, gateway string, token secret.File, path string) (sealing.Public, error) {
	var text []byte
	var err error
	if path != "" {
		text, err = os.ReadFile(path)
	} else {
		text, err = fetchPublicKey(ctx, gateway, token)
	}
	if err != nil {
		return sealing.Public{}, fmt.Errorf("sealing key: %w", err)
	}
	var key publicKey
	if err := json.Unmarshal(text, &key); err != nil {
		return sealing.Public{}, errors.New("sealing key: not the answer of GET /v1/byok/sealing-key")
	}
	if key.Info != sealing.InfoTemplate {
		return sealing.Public{}, errors.New("sealing key: the gateway binds sealed credentials to another info_template than this program; use a program of the gateway's version")
	}
	return sealing.Public{ID: key.KeyID, Key: key.PublicKey, KEM: key.KEM, KDF: key.KDF, AEAD: key.AEAD}, nil
}

func fetchPublicKey(ctx context.Context, gateway string, token secret.File) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	at, err := url.JoinPath(gateway, "/v1/byok/sealing-key")
	if err != nil {
		return nil, errors.New("-gateway: not a URL")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, errors.New("-gateway: not a URL")
	}
	if token != "" {
		value, err := token.Read()
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+value.Reveal())
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // It was read.
	text, err := io.ReadAll(io.LimitReader(response.Body, maxKey))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the gateway answered %s: %s", response.Status, bytes.TrimSpace(text))
	}
	return text, err
}

// readCredential reads exactly one provider key.
func readCredential(path string, in io.Reader) (secret.Value, error) {
	if path != "" {
		return secret.File(path).Read()
	}
	text, err := io.ReadAll(io.LimitReader(in, maxKey+1))
	key := strings.TrimRight(string(text), "\r\n")
	switch {
	case err != nil:
		return secret.Value{}, fmt.Errorf("read key: %w", err)
	case key == "" || len(text) > maxKey || strings.ContainsAny(key, "\r\n"):
		return secret.Value{}, fmt.Errorf("read key: want one line of at most %d bytes on standard input", maxKey)
	}
	return secret.New(key), nil
}
