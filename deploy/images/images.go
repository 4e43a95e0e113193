// Command images pins the images that the repository builds from and runs: in each Dockerfile and in docker-compose.yaml
// it writes the digest that a tag has in its registry today behind the tag. `make pin-images` calls it, with the program
// of go-containerregistry that asks registries.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	changed, err := pin(ctx, ".", ask(cmp.Or(os.Getenv("CRANE"), "crane")))
	stop()
	for _, line := range changed {
		fmt.Println(line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// patience is how long a registry may take to answer for one image.
const patience = time.Minute

var (
	// line is a line that names an image: what is before it, its name with the tag, and the digest.
	line   = regexp.MustCompile(`(?m)^(FROM (?:--platform=\S+ )?|[ \t]+image: )([^\s@:$]+(?::\d+)?[^\s@:$]*:[^\s@:/$]+)(@\S+)?`)
	digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// ask returns a function that asks a registry for the digest of an image, by crane.
func ask(crane string) func(context.Context, string) (string, error) {
	return func(ctx context.Context, image string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		var complaints bytes.Buffer
		command := exec.CommandContext(ctx, crane, "digest", image)
		command.Stderr = &complaints
		out, err := command.Output()
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(complaints.String()))
		}
		return strings.TrimSpace(string(out)), nil
	}
}

// files returns the files of the tree that name images, the compose file first.
func files(root string) ([]string, error) {
	found := []string{filepath.Join(root, "docker-compose.yaml")}
	for _, pattern := range []string{"services/*/Dockerfile", "deploy/*/Dockerfile"} {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		found = append(found, matches...)
	}
	return found, nil
}

// pin writes the digests of all images into the files of the tree, and returns a line for each image whose digest
// changed. If one can't be learned, no file changes.
func pin(ctx context.Context, root string, digestOf func(context.Context, string) (string, error)) (changed []string, err error) {
	paths, err := files(root)
	if err != nil {
		return nil, err
	}
	digests := make(map[string]string) // by image
	texts := make(map[string]string)   // the new text, by path
	var errs []error
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		texts[path] = line.ReplaceAllStringFunc(string(text), func(found string) string {
			parts := line.FindStringSubmatch(found)
			image, before := parts[2], strings.TrimPrefix(parts[3], "@")
			if _, known := digests[image]; !known {
				now, err := digestOf(ctx, image)
				if err == nil && !digest.MatchString(now) {
					err = fmt.Errorf("digest %q: want sha256: and 64 hexadecimal digits", now)
				}
				if err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", image, err))
				} else if now != before {
					changed = append(changed, fmt.Sprintf("%s: %s, was %s", image, now, cmp.Or(before, "not pinned")))
				}
				digests[image] = now
			}
			return parts[1] + image + "@" + digests[image]
		})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, path := range paths {
		errs = append(errs, os.WriteFile(path, []byte(texts[path]), 0o600))
	}
	return changed, errors.Join(errs...)
}
