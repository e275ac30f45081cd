package stream

import "github.com/lbremedy/lbremedy/shared/event"

// A Service is a subject of the engine's account to which users of another account may send requests. The answers go to that other
// account, whatever reply subject a request names. Between two users without separate accounts, one could make the server store an
// answer under a subject that only the other may write.
type Service struct {
	Subject string
	Many    bool // a request has several answers
}

// infoServices returns the services that tell how the streams are set up.
func infoServices() []Service {
	// An account without JetStream that does not import $JS.API.INFO gets the whole API from the server itself, which then answers
	// first, with "JetStream not enabled" (enableJetStreamInfoServiceImportOnly in nats-server).
	all := []Service{{Subject: "$JS.API.INFO"}, {Subject: "$JS.API.CONSUMER.INFO." + Failed + ".*"}}
	for _, stream := range []string{Failed, Cases, Dead, bucketStream} {
		all = append(all, Service{Subject: "$JS.API.STREAM.INFO." + stream})
	}
	return all
}

// ForExporter returns the services for a cluster's exporter with its own account. The exporter publishes failures and dead letters,
// keeps its progress and its page of the ledger, counts the Services, and checks how the streams are set up. It reads what the
// exporters of its cluster have published and changes no stream: "lbremedy up --setup" runs before.
func ForExporter(cluster string) []Service {
	all := infoServices()
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

// ForConsole returns the services for a console, or a person with read access, with its own account: they read all streams.
func ForConsole() []Service {
	all := append(infoServices(), Service{Subject: "$JS.API.CONSUMER.LIST." + Failed})
	for _, stream := range []string{Failed, Cases, Dead, bucketStream} {
		all = append(all, Service{Subject: getSubject(stream), Many: true}, Service{Subject: lastSubject(stream, ">")})
	}
	return all
}
