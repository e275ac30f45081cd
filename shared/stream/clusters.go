package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lbremedy/lbremedy/shared/event"
)

// ConsumerOf returns the name of the consumer of FAILED for the workers of a class in a cluster, unique since class IDs have no underscore.
func ConsumerOf(cluster, class string) string { return class + "_" + cluster }

// setupConsumers creates or updates a consumer per class and cluster. A new one begins with all that FAILED keeps, the newest message
// of each Service and class: the documents answer failures that were settled before.
func (s *Stream) setupConsumers(ctx context.Context, classes, clusters []string) (done, lacking []string, err error) {
	for _, class := range slices.Sorted(slices.Values(classes)) {
		for _, cluster := range slices.Sorted(slices.Values(clusters)) {
			said, _, err := s.setupConsumer(ctx, Failed, jetstream.ConsumerConfig{
				Name:          ConsumerOf(cluster, class),
				FilterSubject: event.FailedOf(cluster, class),
				DeliverPolicy: jetstream.DeliverAllPolicy,
			})
			switch done = append(done, said...); {
			case errors.Is(err, ErrDenied):
				lacking = append(lacking, capital(err.Error())+"; run lbremedy up --setup as a user who may.")
			case err != nil:
				return done, lacking, err
			}
		}
	}
	return done, lacking, nil
}

// Clusters returns the clusters, sorted, that are set up or have an exporter, a policy, failures or cases; a pause alone does not count.
func (s *Stream) Clusters(ctx context.Context) ([]string, error) {
	found := map[string]bool{}
	for _, filter := range []string{"policy.*", event.ProgressKey("*"), event.PageKey("*", "*"), event.CountKey("*")} {
		err := s.EachEntry(ctx, filter, func(e Entry) { found[strings.Split(e.Key, ".")[1]] = true })
		if err != nil {
			return nil, fmt.Errorf("list the known clusters: %w", err)
		}
	}
	for name, filter := range map[string]string{Failed: event.FailedSubjects, Cases: event.CaseSubjects} {
		subjects, err := s.Subjects(ctx, name, filter)
		if err != nil {
			return nil, fmt.Errorf("list the known clusters: %w", err)
		}
		for _, subject := range subjects {
			found[strings.Split(subject, ".")[2]] = true
		}
	}
	err := s.classConsumers(ctx, func(_, cluster string, _ *jetstream.ConsumerInfo) { found[cluster] = true })
	return slices.Sorted(maps.Keys(found)), err
}
