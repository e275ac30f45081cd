package stream

import "github.com/lbremedy/lbremedy/shared/event"

// A Service is a subject of the engine's account for requests of other accounts' users. Answers go to their account, whatever the
// reply subject: without accounts, a user could make the server store an answer under a subject that only another may write.
type Service struct {
	Subject string
	Many    bool // a request has several answers
}

func infoServices() []Service {
	// Without JetStream and an import of $JS.API.INFO, an account gets the whole API from the server, which then answers first, with
	// "JetStream not enabled" (enableJetStreamInfoServiceImportOnly in nats-server).
	all := []Service{{Subject: "$JS.API.INFO"}, {Subject: "$JS.API.CONSUMER.INFO." + Failed + ".*"}}
	for _, stream := range []string{Failed, Cases, Dead, bucketStream} {
		all = append(all, Service{Subject: "$JS.API.STREAM.INFO." + stream})
	}
	return all
}

// ForExporter returns the services for a cluster's exporter with its own account. It publishes failures and dead letters, keeps its
// progress and its page of the ledger, counts the Services, and checks how the streams are set up. It reads what its cluster's
// exporters have published and changes no stream: "lbremedy up --setup" runs before.
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

// ForConsole returns the services for a console or a person with an own account, who read all streams.
func ForConsole() []Service {
	all := append(infoServices(), Service{Subject: "$JS.API.CONSUMER.LIST." + Failed})
	for _, stream := range []string{Failed, Cases, Dead, bucketStream} {
		all = append(all, Service{Subject: getSubject(stream), Many: true}, Service{Subject: lastSubject(stream, ">")})
	}
	return all
}
