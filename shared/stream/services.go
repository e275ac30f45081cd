package stream

import "github.com/lbremedy/lbremedy/shared/event"

// A Service is a subject of the engine's account to which users of another account may send requests. The answers come in
// that other account, whatever subject a request names for them: where NATS has no accounts between two users, one of them
// can have the server store an answer under a subject that only the other may write.
type Service struct {
	Subject string
	Many    bool // a request has several answers
}

// looking are the services that tell how the streams are set up.
func looking() []Service {
	// An account without JetStream that does not import $JS.API.INFO gets all of the API from the server itself, which then
	// answers first, that JetStream is not enabled (enableJetStreamInfoServiceImportOnly in nats-server).
	all := []Service{{Subject: "$JS.API.INFO"}, {Subject: "$JS.API.CONSUMER.INFO." + Failed + ".*"}}
	for _, stream := range []string{Failed, Cases, Dead, bucketStream} {
		all = append(all, Service{Subject: "$JS.API.STREAM.INFO." + stream})
	}
	return all
}

// ForExporter returns what an exporter of a cluster needs that has an account of its own: it publishes failures and what
// it can't publish as one, keeps its progress and its page of the ledger, counts the Services, and checks how the streams
// are set up. It reads what exporters of its cluster have published, and changes no stream: "lbremedy up --setup" runs before.
func ForExporter(cluster string) []Service {
	all := looking()
	for _, own := range []struct{ stream, subject string }{
		{Failed, event.FailedSubject(cluster, "*", "*")},
		{Dead, deadPrefix + "exporter." + cluster},
		{bucketStream, bucketPrefix + event.ProgressKey(cluster)},
		{bucketStream, bucketPrefix + event.PageKey(cluster, "*")},
		{bucketStream, bucketPrefix + event.CountKey(cluster)},
	} {
		all = append(all, Service{Subject: own.subject}, Service{Subject: lastSubject(own.stream, own.subject)})
	}
	return all
}

// ForConsole returns what a console needs that has an account of its own, and so does a person who only looks: it reads
// all streams.
func ForConsole() []Service {
	all := append(looking(), Service{Subject: "$JS.API.CONSUMER.LIST." + Failed})
	for _, stream := range []string{Failed, Cases, Dead, bucketStream} {
		all = append(all, Service{Subject: getSubject(stream), Many: true}, Service{Subject: lastSubject(stream, ">")})
	}
	return all
}
