package stream

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/event"
)

// all are the streams of lbremedy, with the one that the bucket is.
var all = []string{Failed, Cases, Dead, bucketStream}

// looking returns what looks at how the streams are set up and at how far they are read.
func looking(inbox string) Permissions {
	p := Permissions{Subscribe: []string{inbox + ".>"}}
	for _, stream := range all {
		p.Publish = append(p.Publish, "$JS.API.STREAM.INFO."+stream, "$JS.API.CONSUMER.INFO."+stream+".*")
	}
	return p
}

// reading returns what reads the streams whole, beside that.
// None of it creates a consumer: who may do that chooses the subject on which the
// server delivers, and with it writes where the consumer's owner may not.
func reading(inbox string) Permissions {
	p := looking(inbox)
	for _, stream := range all {
		p.Publish = append(p.Publish, getSubject(stream), lastSubject(stream, ">"))
	}
	return p
}

// exporting are the subjects that an exporter of a cluster publishes to.
func exporting(cluster string) []string {
	return []string{
		event.FailedSubject(cluster, "*", "*"),
		deadPrefix + "exporter." + cluster,
		bucketPrefix + "progress." + cluster,
		bucketPrefix + "ledger." + cluster + ".*",
		bucketPrefix + event.CountKey(cluster),
	}
}

// PermitExporter returns what an exporter of one cluster needs, and no more: it publishes failures
// and what can be none, keeps its progress and its page of the ledger, counts the
// Services, and sees that all is set up. Of what the streams hold it reads what it has
// published itself, and nothing of another cluster. Its user is "exporter". It sets
// nothing up: an operator has run "lbremedy setup" before.
func PermitExporter(cluster string) Permissions {
	p := looking(inboxIn(InboxOf("exporter"), cluster))
	own := exporting(cluster)
	p.Publish = append(append(p.Publish, own...), lastSubject(Failed, own[0]), lastSubject(Dead, own[1]))
	for _, key := range own[2:] {
		p.Publish = append(p.Publish, lastSubject(bucketStream, key))
	}
	return p
}

// notifying are the subjects with which people of a cluster are notified.
func notifying(cluster string) []string {
	subjects := []string{
		"$JS.API.CONSUMER.CREATE." + Cases + ".*." + strings.TrimSuffix(event.CaseSubjects, ">") + cluster + ".>",
		"$JS.API.CONSUMER.MSG.NEXT." + Cases + ".*",
		"$JS.ACK." + Cases + ".>",
	}
	for _, keys := range []string{"incident.>", "ticket.>", "policy." + cluster, "tell." + cluster, "history." + cluster + ".*"} {
		subjects = append(subjects, bucketPrefix+keys)
	}
	return subjects
}

// answers are the keys of what people of a cluster answer by objects of it, which prove who
// they are. Whoever brings these to NATS may write them, and nobody else, an operator
// included: shared/approval looks at each object first.
func answers(cluster string) string { return bucketPrefix + "answer." + cluster + ".>" }

// PermitNotifier returns what notifies people of one cluster of what becomes of cases, brings
// their answers from the cluster, puts a policy file in
// force and measures how things stand, beside couriers or workers, and no more: its
// followers of the journal, the keys of incidents and of what their sinks were sent, those of
// answers, and the policy with its history. Its user is "notifier". It writes no record and no
// dead letter and ends no pause. The failures that it may publish are those that it has
// delivered again for an answer.
//
// Its followers are as many as the policy has sinks, so that it may create consumers of
// its cluster's records under any name. Who has its key can with that have these records
// delivered on other subjects, and take what another follower has not read yet. The keys
// of incidents name Services by their UIDs, and not their clusters.
func PermitNotifier(cluster string) Permissions {
	p := reading(inboxIn(InboxOf("notifier"), cluster))
	p.Publish = append(append(p.Publish, listConsumers), notifying(cluster)...)
	p.Publish = append(p.Publish, answers(cluster), event.FailedSubject(cluster, "*", "*"))
	return p
}

// PermitWorker returns what "lbremedy up" needs for one cluster in a NATS that it shares:
// it does the work of the exporter, of these classes and of those who notify people, runs
// the doctor, and puts its policy file in force. Its user is "worker". It sets nothing up
// but its followers: an operator has run "lbremedy setup" before.
//
// What it claims and locks of a cloud is common to all clusters, as Permit says.
func PermitWorker(cluster string, classes []string) Permissions {
	p := reading(inboxIn(InboxOf("worker"), cluster))
	p.Publish = append(append(append(p.Publish, listConsumers), exporting(cluster)...), notifying(cluster)...)
	for _, class := range slices.Sorted(slices.Values(classes)) {
		consumer := Failed + "." + ConsumerOf(cluster, class)
		p.Publish = append(p.Publish, "$JS.API.CONSUMER.MSG.NEXT."+consumer, "$JS.ACK."+consumer+".>")
	}
	p.Publish = append(p.Publish,
		event.CaseSubject(cluster, "*", "*"),
		event.KeptSubject(cluster, "*", "*"),
		deadPrefix+"failed."+cluster+".>",
		answers(cluster),
	)
	for _, keys := range []string{
		"claim.vswitch.*.*", "claim.evict.%s.>", "claim.budget.%s.>", "claim.unsettled.%s.>",
		"breaker.%s.*", "run.%s.>", "lock.target.>", "lock." + event.DoctorLock + "%s", event.DoctorKey("%s"), "lock.again.%s", "pace.touch.%s",
	} {
		p.Publish = append(p.Publish, bucketPrefix+strings.ReplaceAll(keys, "%s", cluster))
	}
	return p
}

// byCommands are the keys that lbremedy's commands write, whichever the cluster. The answers
// that objects of a cluster prove are none of them.
var byCommands = []string{
	"approval.>", "breaker.>", "claim.>", "closed.>", "doctor.>", "history.>", "incident.>", "ledger.>", "lock.>", "pace.>", "pause", "pause.>",
	"policy.>", "progress.>", "run.>", "services.>", "tell.>", "ticket.>",
}

// PermitOperator returns what a person needs who may do all that lbremedy's commands
// do, in all clusters: approve and take back, pause, put a policy in force, close a
// breaker, send again, set up, back up and restore. The user is "operator".
//
// What it approves counts as said over NATS. It can't forge what an object of the cluster
// proves but by restoring a backup of its own making.
func PermitOperator() Permissions {
	p := reading(InboxOf("operator"))
	for _, stream := range all {
		p.Publish = append(p.Publish, "$JS.API.STREAM.CREATE."+stream, "$JS.API.STREAM.UPDATE."+stream,
			"$JS.API.STREAM.DELETE."+stream, "$JS.API.STREAM.MSG.DELETE."+stream,
			"$JS.API.STREAM.SNAPSHOT."+stream, "$JS.API.STREAM.RESTORE."+stream, "$JS.API.CONSUMER.DELETE."+stream+".*")
	}
	for _, stream := range []string{Failed, Cases} {
		p.Publish = append(p.Publish, "$JS.API.CONSUMER.CREATE."+stream+".>", "$JS.API.CONSUMER.MSG.NEXT."+stream+".*", "$JS.ACK."+stream+".>")
	}
	p.Publish = append(p.Publish, listConsumers, "lbremedy.>", "$JS.SNAPSHOT.>")
	for _, keys := range byCommands {
		p.Publish = append(p.Publish, bucketPrefix+keys)
	}
	return p
}

// PermitViewer returns what a person needs who only looks: what lists and
// shows cases, failures, tickets and the ledger. It changes nothing, though its key can, as Permit says. The user is
// "viewer". "lbremedy watch" needs a consumer of its own, and with it an operator.
func PermitViewer() Permissions {
	p := reading(InboxOf("viewer"))
	p.Publish = append(p.Publish, listConsumers)
	return p
}

// listConsumers is how one asks what waits for each class.
const listConsumers = "$JS.API.CONSUMER.LIST." + Failed

// Common are the users that are not one cluster's: there is one of each, however many
// clusters share the NATS.
var Common = []string{"operator", "viewer"}

// ThisCluster stands for the ID of a cluster in what is generated before it is known;
// infra/keys writes the ID in its place.
const ThisCluster = "THIS-CLUSTER"

// Users returns the users of one cluster in a NATS that lbremedy shares with others, by
// name: one for each class, and one for each program and kind of person. What has no entry here has
// no business in lbremedy's account.
func Users(cluster string, classes []string) (map[string]Permissions, error) {
	if err := event.ValidCluster(cluster); err != nil {
		return nil, fmt.Errorf("permit the users of a cluster: %w", err)
	}
	users := map[string]Permissions{
		"exporter": PermitExporter(cluster), "courier": PermitCourier(cluster, classes), "notifier": PermitNotifier(cluster),
		"worker": PermitWorker(cluster, classes), "operator": PermitOperator(), "viewer": PermitViewer(),
	}
	for _, class := range classes {
		if _, taken := users[class]; taken {
			return nil, fmt.Errorf("permit the class %s: the user of that name is another's, or the class is there twice", class)
		}
		may, err := Permit(cluster, class)
		if err != nil {
			return nil, fmt.Errorf("permit the class %s: %w", class, err)
		}
		users[class] = may
	}
	return users, nil
}

// KeyName returns the name under which the configuration of a NATS server knows the
// public key of a user.
func KeyName(user string) string {
	return "NKEY_" + strings.ToUpper(strings.ReplaceAll(user, "-", "_"))
}
