package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/s2"
	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func restore(p *cli.Program) *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "Restore the streams of a backup",
		Long: `Restore the streams of a backup with their consumers. Empty streams are replaced; if a
stream holds anything, nothing is restored unless --replace is given, which deletes the
existing streams for good. The backup is read to its end before: one that is cut or
damaged deletes nothing.

Stop exporters and workers first, and start them afterwards. Without --nats, and while
"lbremedy up" does not run, the streams are restored into its state directory.

A backup does not hold what happened after it. Later attempts are not counted, and
lbremedy cannot undo what was written later. Failures that persist are published again,
and the cluster is read before anything is written.`,
		Example: `  lbremedy restore /var/backups/lbremedy-2026-01-02`,
		Args:    command.Exactly(1, 1, "the directory of a backup"),
		RunE: func(cmd *cobra.Command, args []string) error {
			heads, err := readHeads(args[0])
			if err != nil {
				return err
			}
			s, end, err := target(cmd.Context(), p)
			if err != nil {
				return err
			}
			defer end()
			if err := makeRoom(cmd.Context(), s, replace); err != nil {
				return err
			}
			list := []copied{}
			for i, name := range stream.Backups {
				c, err := bringBack(cmd.Context(), p, s, heads[i], filepath.Join(args[0], name, dataFile))
				if err != nil {
					return say.Errorf("%w; fix this and run it again with --replace", err)
				}
				list = append(list, c)
			}
			return printCopies(p, list)
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "delete the existing streams with all they hold")
	return cmd
}

// readHeads reads what a backup says of its streams, and checks that all are there and whole:
// nothing is deleted for a backup that is no good.
func readHeads(dir string) ([]stream.Head, error) {
	var heads []stream.Head
	sums, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // an earlier release wrote none
		return nil, command.Wrong("read the backup: %w", err)
	}
	for _, name := range stream.Backups {
		path := filepath.Join(dir, name, headFile)
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, command.Wrong("%s is not a complete backup: there is no %s", dir, path)
		}
		if err != nil {
			return nil, command.Wrong("read the backup: %w", err)
		}
		var h stream.Head
		if err := json.Unmarshal(data, &h); err != nil {
			return nil, command.Wrong("read %s: %w", path, cli.OneLine(err))
		}
		if h.Stream() != name {
			return nil, command.Wrong("%s is not of the stream %s but of %q", path, name, h.Stream())
		}
		f, err := os.Open(filepath.Join(dir, name, dataFile))
		if err != nil {
			return nil, command.Wrong("%s is not a complete backup: %w", dir, err)
		}
		sum := sha256.New()
		err = readThrough(io.TeeReader(f, sum))
		_ = f.Close()
		if err == nil && sums != nil && !bytes.Contains(sums, sumLines(name, data, sum)) {
			err = say.Errorf("it is not the file that %s names", sumsFile)
		}
		if err != nil {
			return nil, command.Wrong("%s is cut or damaged, so nothing was done: %w", f.Name(), err)
		}
		heads = append(heads, h)
	}
	return heads, nil
}

// readThrough reads the data of a copy to its end. What is in it is NATS' own business, but it has checksums.
func readThrough(data io.Reader) error {
	n, err := io.Copy(io.Discard, s2.NewReader(data))
	if err == nil && n == 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// target returns the NATS to restore into: the one of the flags or of up, or one on
// up's state directory if up does not run.
func target(ctx context.Context, p *cli.Program) (s *stream.Stream, end func(), err error) {
	s, err = p.Stream(ctx)
	if err == nil {
		return s, s.Close, nil
	}
	if p.NATS != "" || !errors.Is(err, stream.ErrUnavailable) && !errors.As(err, new(command.Mistake)) {
		return nil, nil, err
	}
	dir, err := p.StateDir()
	if err != nil {
		return nil, nil, err
	}
	server, _, err := p.Embed(dir)
	if err != nil {
		return nil, nil, err
	}
	if s, err = p.Stream(ctx); err != nil {
		server.Close()
		return nil, nil, err
	}
	return s, func() { s.Close(); server.Close() }, nil
}

// makeRoom removes the streams that stand in the way: empty ones, or all.
func makeRoom(ctx context.Context, s *stream.Stream, all bool) error {
	var there []string
	for _, name := range stream.Backups {
		n, err := s.Held(ctx, name)
		switch {
		case errors.Is(err, stream.ErrNotFound):
			continue
		case err != nil:
			return err
		case n > 0 && !all:
			return command.Wrong("the stream %s holds %d messages: nothing was done; --replace deletes them", name, n)
		}
		there = append(there, name)
	}
	for _, name := range there {
		if err := s.Discard(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// bringBack restores one stream. It may then hold less than the copy: NATS removes at
// once what has become too old meanwhile.
func bringBack(ctx context.Context, p *cli.Program, s *stream.Stream, h stream.Head, path string) (copied, error) {
	f, err := os.Open(path)
	if err != nil {
		return copied{}, say.Errorf("read the backup: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return copied{}, say.Errorf("read the backup: %w", err)
	}
	p.Note("Restoring %s: %d messages.", h.Stream(), h.Messages())
	if err := s.Restore(ctx, h, f); err != nil {
		return copied{}, err
	}
	n, err := s.Held(ctx, h.Stream())
	if err != nil {
		return copied{}, err
	}
	return copied{h.Stream(), n, info.Size()}, nil
}
