package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"switchyard.dev/services/edge/internal/site"
	"switchyard.dev/services/platform/command"
)

// docsCommand writes the documents of this release, which serve shows below /docs/, for another web server.
func docsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "docs FOLDER", Short: "write the documents as a site into a new folder", Args: command.Args(1, 1), ValidArgsFunction: command.Files,
		Long: "Writes the documents of this release as a site with a search into a folder, which must be empty or not there yet: for any\n" +
			"web server, or for a browser alone.",
		RunE: func(c *cobra.Command, args []string) error {
			if err := writeSite(args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), filepath.Join(args[0], "index.html"))
			return err
		},
	}
}

// writeSite writes the site into a folder. One that holds something is refused.
func writeSite(folder string) error {
	folder = filepath.Clean(folder) // "" is this folder.
	if entries, err := os.ReadDir(folder); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty", folder)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files, err := site.Files()
	if err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
