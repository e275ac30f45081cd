package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/near"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// KnownCluster returns an error if NATS has never seen a cluster: a typo, or not set up. The empty ID means all clusters.
func KnownCluster(ctx context.Context, s *stream.Stream, cluster string) error {
	said, err := Unseen(ctx, s, cluster)
	if err == nil && said != nil {
		err = command.Wrong("%s", said)
	}
	return err
}

// Unseen returns a sentence that NATS has never seen a cluster, with the known ones; empty for a known cluster and the empty ID.
func Unseen(ctx context.Context, s *stream.Stream, cluster string) (say.Text, error) {
	if cluster == "" {
		return nil, nil
	}
	known, err := s.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	if slices.Contains(known, cluster) {
		return nil, nil
	}
	text := say.F("NATS has never seen a cluster %q.", cluster)
	if meant := near.One(cluster, known); meant != "" {
		text = say.F("NATS has never seen a cluster %q: did you mean %s?", cluster, meant)
	}
	if len(known) == 0 {
		return text.And("It knows no cluster yet"), nil
	}
	return text.And("It knows %s", strings.Join(known, ", ")), nil
}

// OneCluster returns the cluster named in the flags, otherwise the only one that NATS knows.
func (p *Program) OneCluster(ctx context.Context, s *stream.Stream) (string, error) {
	if p.Cluster != "" {
		return p.Cluster, nil
	}
	known, err := s.Clusters(ctx)
	switch {
	case err != nil:
		return "", err
	case len(known) == 1:
		return known[0], nil
	case len(known) > 1:
		return "", command.Wrong("NATS knows several clusters, %s: name one with --cluster or LBREMEDY_CLUSTER", strings.Join(known, ", "))
	}
	return "", command.Wrong("no cluster is named, and NATS knows none: set --cluster or LBREMEDY_CLUSTER to the ID of the ACK cluster")
}

// InCluster returns words for the end of a sentence that name a cluster; empty for all clusters.
func InCluster(cluster string) say.Text {
	if cluster == "" {
		return nil
	}
	return say.F(" in cluster %s", cluster)
}

// NoteNone prints that nothing was found, such as "case of class quota", and whether NATS has never seen the cluster.
func (p *Program) NoteNone(ctx context.Context, s *stream.Stream, what say.Text) error {
	p.Note("No %s%s.", what, InCluster(p.Cluster))
	said, err := Unseen(ctx, s, p.Cluster)
	if err == nil && said != nil {
		p.Note("%s.", said)
	}
	return err
}

// OnStream returns a function that runs a command with the stream.
func (p *Program) OnStream(run func(ctx context.Context, s *stream.Stream, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := p.Stream(cmd.Context())
		if err != nil {
			return err
		}
		defer s.Close()
		return run(cmd.Context(), s, args)
	}
}

// NotePause prints the pauses in force in the cluster of the flags, or all pauses if they name none.
func (p *Program) NotePause(ctx context.Context, s *stream.Stream) {
	all, err := control.PausesIn(ctx, s, p.Cluster)
	if err != nil {
		p.Note("Whether writes are paused is unknown: %s.", command.Clean(event.Redact(err.Error())))
		return
	}
	for _, one := range all {
		p.Note("Writes are paused. %s", PauseLine(one))
	}
}

// PauseLine describes a pause: its clusters, who made it, when and why.
func PauseLine(one control.Pause) say.Text {
	text := one.Text().Map(command.Clean)
	if one.Cluster != "" {
		return say.F("Cluster %s: %s", one.Cluster, text)
	}
	return say.F("All clusters: %s", text)
}
