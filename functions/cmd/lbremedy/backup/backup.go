// Package backup is the commands that copy the streams into a directory and restore them
// from there.
package backup

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Commands returns the commands of this package.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{backup(p), restore(p)}
}

// The files of a copied stream, as the program nats names them.
const (
	headFile = "backup.json"
	dataFile = "stream.tar.s2"
)

// sumsFile is beside the folders of the streams: the checksums of all files, as sha256sum -c reads them.
const sumsFile = "SHA256SUMS"

// A copied is a stream of a backup as the commands print it.
type copied struct {
	Stream   string `json:"stream"`
	Messages uint64 `json:"messages"`
	Bytes    int64  `json:"bytes"` // of the file with its data
}

func backup(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR",
		Short: "Back up the journal, dead letters, failures and keys to a directory",
		Long: `Back up all streams of lbremedy to a new directory: the journal, stored failures, dead
letters, and the keys with policy, pause, budgets and progress. NATS makes the backup and
checks every message; nothing has to be stopped. The directory appears once the backup is
complete.

Each stream has a folder in the format of the nats command line, so either of these
restores it: "lbremedy restore DIR" or "nats stream restore DIR/CASES". SHA256SUMS has the
checksums of the files: "lbremedy restore" and "sha256sum -c" check them.

A backup holds settings of the cluster and the cloud: keep it private. The journal keeps
records for 30 days, a backup keeps them as long as you like.`,
		Example: `  lbremedy backup /var/backups/lbremedy-$(date +%F)`,
		Args:    command.Exactly(1, 1, "a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := filepath.Clean(args[0])
			if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				return command.Wrong("%s already exists: name a new directory", dir)
			}
			s, err := p.Stream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			partial, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-*") // made with mode 0700
			if err != nil {
				return command.Wrong("make the directory: %w", err)
			}
			defer os.RemoveAll(partial)
			list, sums := []copied{}, []byte{}
			for _, name := range stream.Backups {
				c, sum, err := copyStream(p, cmd, s, name, filepath.Join(partial, name))
				if err != nil {
					return err
				}
				list, sums = append(list, c), append(sums, sum...)
			}
			if err := os.WriteFile(filepath.Join(partial, sumsFile), sums, 0o600); err != nil {
				return say.Errorf("write the copy: %w", err)
			}
			if err := os.Rename(partial, dir); err != nil {
				return say.Errorf("name the directory: %w", err)
			}
			return printCopies(p, list)
		},
	}
}

// copyStream writes a stream into a folder, and returns the lines of its files for sumsFile.
func copyStream(p *cli.Program, cmd *cobra.Command, s *stream.Stream, name, dir string) (copied, []byte, error) {
	failed := func(err error) (copied, []byte, error) { return copied{}, nil, err }
	if err := os.Mkdir(dir, 0o700); err != nil {
		return failed(say.Errorf("make the directory: %w", err))
	}
	f, err := os.OpenFile(filepath.Join(dir, dataFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return failed(say.Errorf("write the copy: %w", err))
	}
	g := p.Progress()
	w := &counting{f: f, said: func(n int64) { g.Say("copying %s: %d MiB", name, n>>20) }}
	sum := sha256.New()
	head, err := s.Backup(cmd.Context(), name, io.MultiWriter(w, sum))
	g.Done()
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return failed(err)
	}
	data, err := json.MarshalIndent(head, "", "  ")
	if err != nil {
		return failed(say.Errorf("write the copy: %w", err))
	}
	data = append(data, '\n')
	if err := os.WriteFile(filepath.Join(dir, headFile), data, 0o600); err != nil {
		return failed(say.Errorf("write the copy: %w", err))
	}
	return copied{name, head.Messages(), w.n}, sumLines(name, data, sum), nil
}

// sumLines returns what sumsFile says of a stream's head and, by their checksum, of its data.
func sumLines(stream string, head []byte, data hash.Hash) []byte {
	return fmt.Appendf(nil, "%x  %s/%s\n%x  %s/%s\n", sha256.Sum256(head), stream, headFile, data.Sum(nil), stream, dataFile)
}

// A counting file tells how much was written to it.
type counting struct {
	f    *os.File
	n    int64
	said func(int64)
}

func (c *counting) Write(data []byte) (int, error) {
	n, err := c.f.Write(data)
	c.n += int64(n)
	c.said(c.n)
	return n, err
}

func printCopies(p *cli.Program, list []copied) error {
	return p.Print(list, func() {
		t := p.Table("stream", "messages", "bytes")
		for _, c := range list {
			t.AppendRow([]any{c.Stream, c.Messages, c.Bytes})
		}
		t.Render()
	})
}
