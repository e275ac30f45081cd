package stream

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lbremedy/lbremedy/shared/event"
)

// Permissions are the subjects that a user of NATS may publish to and subscribe to.
type Permissions struct {
	Publish   []string
	Subscribe []string
}

// InboxOf returns the beginning of the subjects on which a user gets answers. Each
// user has its own, so that none listens to another's.
func InboxOf(user string) string { return "_INBOX_" + user }

// inboxIn returns the part of an inbox that is for answers about a cluster: users of one
// name in several clusters don't listen to each other's answers either.
func inboxIn(inbox, cluster string) string {
	if inbox == "" || cluster == "" {
		return inbox
	}
	return inbox + "." + cluster
}

// Permit returns what the function or worker of one class in one cluster needs, and no more: its
// own consumer, its own records and snapshots in the journal, the dead letters of its
// own messages, and the keys that the engine writes for it. The user is the class, with
// Config.Inbox as InboxOf says.
//
// It may read FAILED, CASES and the bucket whole: the server tells a query for many
// subjects at once from one for its own by its body alone. None of them holds a secret. It
// may not write the policy, a pause, an approval, or another class's breaker.
//
// That holds for what a program does, not against who has stolen its key: the server does not check where an answer is to
// go, and stores an answer with a stored message where a stream takes its subject. What may be read may be written anywhere.
//
// What is claimed or locked of a cloud is common to all clusters of the NATS by design:
// two clusters may put load balancers into one vSwitch, share a load balancer, or have a
// RAM policy in common, and must not write to it at once.
func Permit(cluster, class string) (Permissions, error) {
	if err := cmp.Or(event.ValidCluster(cluster), event.ValidClass(class)); err != nil {
		return Permissions{}, err
	}
	consumer := Failed + "." + ConsumerOf(cluster, class)
	p := Permissions{Subscribe: []string{inboxIn(InboxOf(class), cluster) + ".>"}}
	for _, stream := range []string{Failed, Cases, bucketStream} {
		p.Publish = append(p.Publish, getSubject(stream), lastSubject(stream, ">"))
	}
	dead := deadPrefix + "failed." + cluster + "." + class + ".>"
	key := func(format string, args ...any) string { return bucketPrefix + fmt.Sprintf(format, args...) }
	p.Publish = append(p.Publish,
		"$JS.API.CONSUMER.INFO."+consumer,
		"$JS.API.CONSUMER.MSG.NEXT."+consumer,
		"$JS.ACK."+consumer+".>",
		event.CaseSubject(cluster, "*", class),
		event.KeptSubject(cluster, "*", class),
		dead, lastSubject(Dead, dead), // to put nothing there twice
		key("claim.vswitch.*.*"), // free addresses
		key("claim.evict.%s.>", cluster),
		key("claim.budget.%s.*", cluster),
		key("claim.budget.%s.%s.*", cluster, class),
		key("claim.unsettled.%s.%s.*", cluster, class),
		key("breaker.%s.%s", cluster, class),
		key("run.%s.*.%s", cluster, class),
		key("lock.target.>"),
		key("pace.touch.%s", cluster),
	)
	return p, nil
}

// CourierFollower returns the name of the follower of the journal that the couriers of a
// cluster share.
func CourierFollower(cluster string) string { return "courier_" + cluster }

// PermitCourier returns what a courier of one cluster needs, and no more: the messages of
// these classes, their dead letters, and the records that its follower is handed. Its user
// is "courier". It may create neither streams nor consumers, since who may create a
// consumer chooses the subject on which the server delivers: Setup and SetupFollower
// have run before. What it may read beside that are its dead letters, to put nothing
// there twice: nothing of another cluster.
func PermitCourier(cluster string, classes []string) Permissions {
	dead := deadPrefix + "failed." + cluster + ".>"
	p := Permissions{
		Publish:   []string{dead, lastSubject(Dead, dead)},
		Subscribe: []string{inboxIn(InboxOf("courier"), cluster) + ".>"},
	}
	consumers := []string{Cases + "." + CourierFollower(cluster)}
	for _, class := range slices.Sorted(slices.Values(classes)) {
		consumers = append(consumers, Failed+"."+ConsumerOf(cluster, class))
	}
	for _, consumer := range consumers {
		p.Publish = append(p.Publish, "$JS.API.CONSUMER.INFO."+consumer, "$JS.API.CONSUMER.MSG.NEXT."+consumer, "$JS.ACK."+consumer+".>")
	}
	return p
}
