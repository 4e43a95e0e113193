// Command protos writes the contracts and the protos of others that they import as one archive, for callers that
// generate clients in their own languages. Equal files give an equal archive. `make protos` calls it.
package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: protos ARCHIVE FOLDER...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "protos:", err)
		os.Exit(1)
	}
}

func run(archive string, folders []string) (err error) {
	files, err := collect(folders)
	if err != nil {
		return err
	}
	file, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return write(file, files)
}

// root is the folder that the archive unpacks into.
const root = "switchyard-protos"

// collect returns the files of the folders by their paths within them. A path may be in one folder only.
func collect(folders []string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	for _, folder := range folders {
		err := fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !wanted(name) {
				return err
			}
			if _, twice := files[name]; twice {
				return fmt.Errorf("%s is in two folders", name)
			}
			files[name], err = os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", folder, err)
		}
	}
	return files, nil
}

func wanted(name string) bool {
	return path.Ext(name) == ".proto" || name == "LICENSE" || name == "README.md"
}

// write writes an archive that depends on nothing but the files: their order, times, modes and owners are fixed.
func write(to io.Writer, files map[string][]byte) error {
	zipped := gzip.NewWriter(to)
	archive := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{
			Name: root + "/" + name, Size: int64(len(files[name])), Mode: 0o644, ModTime: time.Unix(0, 0), Typeflag: tar.TypeReg,
			Format: tar.FormatUSTAR,
		}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := archive.Write(files[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}
