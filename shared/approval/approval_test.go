package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/operator"
)

// approver is what the ClusterRole lbremedy-approver allows.
var approver = []rbacv1.PolicyRule{{APIGroups: []string{"lbremedy.io"}, Resources: []string{"approvals"}, Verbs: []string{"create", "get", "list", "watch"}}}

// A world is a cluster, a journal and what brings the one's Approvals to the other.
type world struct {
	*testing.T
	kube      *cluster.Cluster
	stream    *stream.Stream
	namespace string
	cases     int
	bringer   *approval.Bringer
}

// asks returns the record of a new case that asks about a plan, and keeps its failure.
func (s *world) asks() event.Record {
	s.Helper()
	s.cases++
	rec := operator.Journalled()[2]
	rec.Service = event.Service{Namespace: s.namespace, Name: fmt.Sprint("web-", s.cases), UID: fmt.Sprintf("%08d-0000-4000-8000-000000000000", s.cases)}
	rec.Case = rec.Service.UID[:8] + "-20260102T150405"
	rec.Phase, rec.Result, rec.Next, rec.Written, rec.Attempt, rec.Attempts = event.Settled, event.Asked, 0, time.Time{}, 0, nil
	rec.Digest = fmt.Sprintf("%032x", s.cases)
	s.journal(rec)
	header, data := operator.Failure(s.T, rec.Class, rec.Service.UID, "7")
	_, _, err := s.stream.PublishNewer(s.Context(), event.FailedSubject(rec.Cluster, rec.Class, rec.Service.UID), rec.Case, header, data,
		func(stream.Message) bool { return true })
	s.must(err)
	return rec
}

func (s *world) journal(rec event.Record) {
	s.Helper()
	s.must(operator.Seed(s.Context(), s.stream, rec))
}

func (s *world) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// as returns the cluster as a user sees it who has these rights and groups.
func (s *world) as(user string, rules []rbacv1.PolicyRule, groups ...string) *kube.Cluster {
	s.Helper()
	config := s.kube.As(s.T, user, rules)
	config.Impersonate.Groups = append(groups, "system:authenticated")
	c, err := kube.New(config)
	s.must(err)
	return c
}

// answer creates the answer of a user, as it is changed, and returns it once it was looked at.
func (s *world) answer(by *kube.Cluster, rec event.Record, change func(*kube.Approval)) *kube.Approval {
	s.Helper()
	a := s.create(by, rec, change)
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	done, err := by.AwaitApproval(ctx, *a)
	s.must(err)
	if done.Status.State == "" {
		s.Fatalf("nobody looked at %+v", done)
	}
	return done
}

func (s *world) create(by *kube.Cluster, rec event.Record, change func(*kube.Approval)) *kube.Approval {
	s.Helper()
	me, err := by.Me(s.Context())
	s.must(err)
	a := approval.To(rec, kube.Approve, me, "CHG-1", time.Hour)
	if change != nil {
		change(&a)
	}
	made, err := by.CreateApproval(s.Context(), a)
	s.must(err)
	return made
}

// brought returns the answers to a case that are in NATS.
func (s *world) brought(rec event.Record) []engine.Approval {
	s.Helper()
	entries, err := s.stream.Entries(s.Context(), "answer."+rec.Cluster+"."+rec.Service.UID+".>")
	s.must(err)
	var all []engine.Approval
	for _, e := range entries {
		var a engine.Approval
		s.must(json.Unmarshal(e.Value, &a))
		all = append(all, a)
	}
	return all
}

// refused fails unless an answer does not count, for this reason.
func (s *world) refused(doing string, rec event.Record, a *kube.Approval, why string, have int) {
	s.Helper()
	if a.Status.State != kube.Refused || !strings.Contains(a.Status.Message, why) {
		s.Errorf("%s: it is %q: %s; want %q", doing, a.Status.State, a.Status.Message, why)
	}
	if got := s.brought(rec); len(got) != have {
		s.Errorf("%s: NATS has %+v", doing, got)
	}
}

// begin runs what brings Approvals, with the rights of the notifier and no others.
func (s *world) begin() {
	s.Helper()
	rights, err := identity.Of("notifier")
	s.must(err)
	config, err := rights.Cluster(s.Context(), s.kube, "notifier")
	s.must(err)
	c, err := kube.New(config)
	s.must(err)
	server := nats.Start(s.T, embedded.Options{})
	s.stream = nats.Connect(s.T, stream.Config{URL: server.URL()})
	_, err = s.stream.Setup(s.Context(), []string{"vswitch-ip-exhausted"}, stream.Settings{Clusters: []string{"c1"}})
	s.must(err)
	own := nats.Connect(s.T, stream.Config{URL: server.URL()})
	s.bringer = &approval.Bringer{Cluster: "c1", Kube: c, Writer: kube.NewWriter(c), Stream: own, Log: slog.New(slog.DiscardHandler), Said: func(string) {}}
	s.run(s.bringer)
}

// run runs what brings Approvals until the test ends.
func (s *world) run(b *approval.Bringer) {
	ctx, cancel := context.WithCancel(s.Context())
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := b.Run(ctx); err != nil {
			s.Error(err)
		}
	})
	s.Cleanup(func() { cancel(); wait.Wait() })
}

// An answer that counts is one that the API server proves, of a person who may, to the plan
// that waits. Of all others nothing gets to where a run looks for answers.
func TestApprovals(t *testing.T) {
	c := cluster.Alone(t)
	s := &world{T: t, kube: c, namespace: c.Namespace(t)}
	ctx := t.Context()
	remove, err := identity.Approve(ctx, c, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	s.must(err)
	t.Cleanup(func() {
		if err := remove(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	s.begin()
	admin, err := kube.New(c.Config)
	s.must(err)
	within(t, "the kind Approval is served", func() bool { _, err := admin.Approvals(ctx, s.namespace); return err == nil })
	ann, bob := s.as("ann", approver, "network"), s.as("bob", approver)

	// Without the admission policy nothing proves who ann is.
	rec := s.asks()
	s.refused("no policy", rec, s.answer(ann, rec, nil), "the admission policy lbremedy-approvals is not in the cluster", 0)
	rest, err := identity.Approve(ctx, c, "CustomResourceDefinition", "ClusterRole")
	s.must(err)
	t.Cleanup(func() {
		if err := rest(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	rec = s.asks()
	s.refused("too early", rec, s.answer(ann, rec, nil), "nothing proves who created it", 0)
	within(t, "the admission policy is in force for a while", func() bool {
		since, err := approval.Since(ctx, admin)
		s.must(err)
		now, err := admin.Clock(ctx)
		s.must(err)
		return now.After(since)
	})

	// What the API server refuses.
	may := func(by *kube.Cluster, doing, why string, change func(*kube.Approval)) {
		t.Helper()
		me, err := by.Me(ctx)
		s.must(err)
		rec := s.asks()
		a := approval.To(rec, kube.Approve, me, "", time.Hour)
		change(&a)
		if _, err := by.CreateApproval(ctx, a); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v; want %q", doing, err, why)
		}
		if got := s.brought(rec); len(got) > 0 {
			t.Errorf("%s: NATS has %+v", doing, got)
		}
	}
	same := func(*kube.Approval) {}
	may(bob, "in another's name", "spec.user must be the user", func(a *kube.Approval) { a.Spec.User = "ann" })
	chat := &kube.Chat{Sink: "ops", Kind: "dingtalk-app", User: "0123", Click: "c1"}
	may(bob, "in another's name, as from a chat", "only the notifier", func(a *kube.Approval) { a.Spec.User, a.Spec.Chat = "ann", chat })
	may(bob, "as from a chat", "only the notifier", func(a *kube.Approval) { a.Spec.Chat = chat })
	relays := func(user string, more ...string) *kube.Cluster {
		return s.as(user, []rbacv1.PolicyRule{{APIGroups: []string{"lbremedy.io"}, Resources: []string{"approvals"},
			Verbs: append([]string{"create", "get", "watch"}, more...)}})
	}
	may(relays("admin", "relay"), "an administrator, as from a chat", "only the notifier", func(a *kube.Approval) { a.Spec.User, a.Spec.Chat = "ann", chat })
	may(relays("system:serviceaccount:shop:lbremedy-notifier"), "one that is called like the notifier", "only the notifier",
		func(a *kube.Approval) { a.Spec.User, a.Spec.Chat = "ann", chat })
	notifier := relays("system:serviceaccount:chat:lbremedy-notifier", "relay")
	may(notifier, "the notifier, without a chat", "only the notifier", func(a *kube.Approval) { a.Spec.User = "ann" })
	may(notifier, "the notifier, as itself", "does not answer its own questions", func(a *kube.Approval) { a.Spec.Chat = chat })
	may(bob, "with a group of others", "spec.groups must be groups of the user", func(a *kube.Approval) { a.Spec.Groups = []string{"network"} })
	may(s.as("system:serviceaccount:lbremedy:lbremedy-up", approver), "lbremedy itself", "does not answer its own questions", same)
	edit, err := c.Client().RbacV1().ClusterRoles().Get(ctx, "system:aggregate-to-edit", metav1.GetOptions{})
	s.must(err)
	may(s.as("eddy", edit.Rules), "who may edit", "not allowed", same)
	may(bob, "another verdict", "invalid", func(a *kube.Approval) { a.Spec.Verdict = "Perhaps" })
	may(bob, "for a year", "invalid", func(a *kube.Approval) { a.Spec.ExpirationSeconds = 365 * 24 * 3600 })

	// What is created and does not count.
	rec = s.asks()
	elsewhere := c.Namespace(t)
	s.refused("wrong namespace", rec, s.answer(ann, rec, func(a *kube.Approval) { a.Namespace = elsewhere }), "is not about a Service of the namespace", 0)
	// Another class has put a record of the case under a subject of its own, with a namespace in which ann may answer.
	rec = s.asks()
	forged := rec
	forged.Service.Namespace = elsewhere
	e, err := event.NewRecord(forged)
	s.must(err)
	header, data, err := event.EncodeNATS(e)
	s.must(err)
	j := s.stream.Journal(rec.Cluster, rec.Service.UID[:8]+"-ffff-ffff-ffff-ffffffffffff", "tag-missing")
	_, err = j.Load(ctx)
	s.must(err)
	s.must(j.Append(ctx, e.ID(), header, data))
	s.refused("a forged namespace", rec, s.answer(ann, rec, func(a *kube.Approval) { a.Namespace = elsewhere }), "is not about a Service of the namespace", 0)
	// What nobody can read keeps no answer back, neither one beside it nor one that asks for it.
	rec = s.asks()
	j = s.stream.Journal(rec.Cluster, rec.Service.UID[:8]+"-0000-0000-0000-000000000000", "tag-missing")
	s.must(j.Append(ctx, "x", nil, []byte("no record")))
	if a := s.answer(ann, rec, nil); a.Status.State != kube.Recorded {
		t.Errorf("beside what can't be read: %+v", a.Status)
	}
	s.must(s.stream.Journal(rec.Cluster, "eeeeeeee-0000-0000-0000-000000000000", "tag-missing").Append(ctx, "x", nil, []byte("no record")))
	rec = s.asks()
	s.refused("what can't be read", rec, s.answer(ann, rec, func(a *kube.Approval) { a.Name, a.Spec.Case = "unread", "eeeeeeee-20260102T150405" }),
		"read the journal: invalid event", 0)
	rec = s.asks()
	s.refused("other digest", rec, s.answer(ann, rec, func(a *kube.Approval) { a.Spec.Plan = strings.Repeat("0", 32) }), "and this answers 0000", 0)
	s.refused("other case", rec, s.answer(ann, rec, func(a *kube.Approval) { a.Name, a.Spec.Case = "other", "ffffffff-20260102T150405" }), "there is no case", 0)
	s.refused("other cluster", rec, s.answer(ann, rec, func(a *kube.Approval) { a.Name, a.Spec.Cluster = "cluster", "c2" }), "is about the cluster c2", 0)
	s.refused("other attempt", rec, s.answer(ann, rec, func(a *kube.Approval) { a.Name, a.Spec.Attempt = "attempt", 2 }), "asks about attempt 1", 0)
	over := s.asks()
	ended := over
	ended.Result = event.Gone
	s.journal(ended)
	s.refused("too late", over, s.answer(ann, over, nil), "it is recovered", 0)

	// What counts, once for each person.
	rec = s.asks()
	first := s.answer(ann, rec, nil)
	got := s.brought(rec)
	if first.Status.State != kube.Recorded || len(got) != 1 || got[0].By != "ann" || got[0].Object != string(first.UID) || got[0].Comment != "CHG-1" ||
		got[0].Attempt != 1 || got[0].Rejects || !slices.Contains(got[0].Groups, "network") || !got[0].At.Equal(first.CreationTimestamp.Time) ||
		got[0].Until.Sub(got[0].At) != time.Hour {
		t.Errorf("it is %+v, and NATS has %+v", first.Status, got)
	}
	m, err := s.stream.Last(ctx, stream.Failed, event.FailedSubject(rec.Cluster, rec.Class, rec.Service.UID))
	if err != nil || m.ID() != "approval."+string(first.UID) {
		t.Errorf("the failure was not delivered again: %v, %v", m.ID(), err)
	}
	me, err := ann.Me(ctx)
	s.must(err)
	if _, err := ann.CreateApproval(ctx, approval.To(rec, kube.Approve, me, "", time.Hour)); !errors.Is(err, kube.ErrConflict) {
		t.Errorf("the same answer again: %v", err)
	}
	s.refused("twice", rec, s.answer(ann, rec, func(a *kube.Approval) { a.Name = "again" }), "ann has answered this plan before", 1)
	no := s.answer(ann, rec, func(a *kube.Approval) { a.Name, a.Spec.Verdict = "no", kube.Reject })
	s.refused("another answer", rec, no, "ann has answered this plan before", 1)
	client := c.Client().CoreV1().RESTClient()
	path := "/apis/lbremedy.io/v1/namespaces/" + s.namespace + "/approvals/"
	s.must(client.Delete().AbsPath(path + first.Name).Do(ctx).Error())
	s.refused("deleted and made again", rec, s.answer(ann, rec, nil), "ann has answered this plan before", 1)
	if a := s.answer(bob, rec, nil); a.Status.State != kube.Recorded || len(s.brought(rec)) != 2 {
		t.Errorf("bob's is %+v, and NATS has %+v", a.Status, s.brought(rec))
	}

	// The notifier answers for somebody in a chat, and the answer says so.
	rec = s.asks()
	relayed := s.answer(notifier, rec, func(a *kube.Approval) {
		a.Spec.User, a.Spec.Groups, a.Spec.Chat = "ann", []string{"network"}, chat
	})
	got = s.brought(rec)
	if relayed.Status.State != kube.Recorded || len(got) != 1 || got[0].By != "ann" || got[0].Identity != "ann" ||
		got[0].Chat != "dingtalk-app user 0123, at the sink ops, by the click c1" || !slices.Equal(got[0].Groups, []string{"network"}) {
		t.Errorf("it is %+v, and NATS has %+v", relayed.Status, got)
	}

	// Nobody changes one afterwards, an administrator included.
	for _, patch := range []string{`{"spec":{"user":"eve"}}`, `{"spec":{"plan":"` + strings.Repeat("1", 32) + `"}}`} {
		if err := client.Patch(types.MergePatchType).AbsPath(path + "again").Body([]byte(patch)).Do(ctx).Error(); err == nil ||
			!strings.Contains(err.Error(), "cannot be changed") {
			t.Errorf("changed by %s: %v", patch, err)
		}
	}

	// A rejection lasts.
	rec = s.asks()
	no = s.answer(bob, rec, func(a *kube.Approval) { a.Spec.Verdict = kube.Reject })
	if got := s.brought(rec); no.Status.State != kube.Recorded || len(got) != 1 || !got[0].Rejects || got[0].Until.Sub(got[0].At) != engine.RejectionLife {
		t.Errorf("it is %+v, and NATS has %+v", no.Status, got)
	}

	// Who gave it takes it back by an approval, and nobody else does.
	said := rec
	said.Result, said.Rejected = event.Planned, &event.Approved{By: "bob", Object: string(no.UID), At: no.CreationTimestamp.Time}
	s.journal(said)
	if _, err := approval.Create(ctx, ann, said, kube.Approve, "", time.Hour); !errors.Is(err, engine.ErrNotAsked) {
		t.Errorf("ann approves what bob has rejected: %v", err)
	}
	s.refused("another's approval", said, s.answer(ann, said, nil), "bob rejected it at", 1)
	within(t, "a second passes", func() bool {
		now, err := admin.Clock(ctx)
		s.must(err)
		return now.After(no.CreationTimestamp.Time)
	})
	give := func(by *kube.Cluster, rec event.Record) *kube.Approval {
		t.Helper()
		made, err := approval.Create(ctx, by, rec, kube.Approve, "CHG-2", time.Hour)
		s.must(err)
		late, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		made, err = by.AwaitApproval(late, *made)
		s.must(err)
		return made
	}
	back := give(bob, said)
	if got := s.brought(said); back.Status.State != kube.Recorded || len(got) != 1 || got[0].Rejects || got[0].Object != string(back.UID) {
		t.Errorf("it is %+v, and NATS has %+v", back.Status, got)
	}
	if again := give(bob, said); again.UID != back.UID {
		t.Errorf("the same once more is %+v", again)
	}

	// What does not count is answered again, by an Approval of another name.
	rec = s.asks()
	s.refused("for another cluster", rec, s.answer(ann, rec, func(a *kube.Approval) { a.Spec.Cluster = "c2" }), "is about the cluster c2", 0)
	if a := give(ann, rec); a.Status.State != kube.Recorded || len(s.brought(rec)) != 1 {
		t.Errorf("it is %+v", a.Status)
	}

	// So is what has expired; an answer for a second is not to be had outside of this test.
	short := []byte(`[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/expirationSeconds/minimum","value":1}]`)
	s.must(client.Patch(types.JSONPatchType).AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/approvals.lbremedy.io").Body(short).Do(ctx).Error())
	rec = s.asks()
	brief := approval.To(rec, kube.Approve, me, "", time.Second)
	var gone *kube.Approval
	within(t, "an answer may be for a second", func() bool { gone, err = ann.CreateApproval(ctx, brief); return err == nil })
	within(t, "it has expired", func() bool {
		now, err := admin.Clock(ctx)
		s.must(err)
		return !now.Before(gone.CreationTimestamp.Add(time.Second)) && !time.Now().Before(gone.CreationTimestamp.Add(time.Second))
	})
	if a := give(ann, rec); a.UID == gone.UID || a.Status.State != kube.Recorded || len(s.brought(rec)) != 1 || s.brought(rec)[0].Object != string(a.UID) {
		t.Errorf("it is %+v, and NATS has %+v", a, s.brought(rec))
	}

	// A policy that lets others in proves nothing, and neither does one that was put right just now.
	weak := `{"spec":{"validationActions":["Warn"]}}`
	bindings := c.Client().AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_, err = bindings.Patch(ctx, approval.Policy, types.MergePatchType, []byte(weak), metav1.PatchOptions{})
	s.must(err)
	rec = s.asks()
	s.refused("policy that warns", rec, s.answer(ann, rec, nil), "lacks the action Deny", 0)
	_, err = bindings.Patch(ctx, approval.Policy, types.MergePatchType, []byte(strings.Replace(weak, "Warn", "Deny", 1)), metav1.PatchOptions{})
	s.must(err)
	rec = s.asks()
	s.refused("policy of just now", rec, s.answer(ann, rec, nil), "nothing proves who created it", 0)

	// After 30 days none can count any more, and they are gone.
	if all, err := admin.Approvals(ctx, ""); err != nil || len(all) < 10 {
		t.Errorf("before: %d, %v", len(all), err)
	}
	later := *s.bringer
	later.Now = func() time.Time { return time.Now().Add(engine.RejectionLife) }
	s.run(&later)
	within(t, "old Approvals are gone", func() bool {
		all, err := admin.Approvals(ctx, "")
		s.must(err)
		return len(all) == 0
	})
}

// within waits until something holds.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal(what + ": it does not come")
		}
	}
}
