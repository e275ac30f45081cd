package approval_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/shell"
)

var approver = []rbacv1.PolicyRule{{APIGroups: []string{"lbremedy.io"}, Resources: []string{"approvals"}, Verbs: []string{"create", "get", "list", "watch"}}}

type world struct {
	*testing.T
	kube      *cluster.Cluster
	engine    *kube.Cluster // with only the engine's generated permissions
	stream    *stream.Stream
	url       string
	namespace string
	cases     int
}

// asks returns the record of a new case that asks about a plan, and stores its failure.
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

func (s *world) as(user string, rules []rbacv1.PolicyRule, groups ...string) *kube.Cluster {
	s.Helper()
	config := s.kube.As(s.T, user, rules)
	config.Impersonate.Groups = append(groups, "system:authenticated")
	c, err := kube.New(config)
	s.must(err)
	return c
}

func (s *world) create(by *kube.Cluster, rec event.Record, change func(*kube.Approval)) *kube.Approval {
	s.Helper()
	me, err := by.Me(s.Context())
	s.must(err)
	a := approval.To(rec, me, approval.Reply{Verdict: kube.Approve, Comment: "CHG-1", Lasts: time.Hour})
	if change != nil {
		change(&a)
	}
	made, err := by.CreateApproval(s.Context(), a)
	s.must(err)
	return made
}

func (s *world) read(rec event.Record, now time.Time) (given []approval.Given, void string) {
	s.Helper()
	given, all, err := approval.Read(s.Context(), s.engine, "c1", rec.Service, now)
	s.must(err)
	for _, v := range all {
		if v.Digest != rec.Digest {
			s.Errorf("%s is of the plan %s", v.Why, v.Digest)
		}
		void += v.Why.String()
	}
	return given, void
}

func (s *world) refused(doing string, rec event.Record, why string, have int) {
	s.Helper()
	if given, void := s.read(rec, time.Now()); !strings.Contains(void, why) || (why == "") != (void == "") || len(given) != have {
		s.Errorf("%s: %q; want %q; what counts is %+v", doing, void, why, given)
	}
}

func (s *world) begin() {
	s.Helper()
	rights, err := identity.Of("engine")
	s.must(err)
	config, err := rights.Cluster(s.Context(), s.kube, "engine")
	s.must(err)
	s.engine, err = kube.New(config)
	s.must(err)
	s.url = nats.Start(s.T, embedded.Options{}).URL()
	s.stream = nats.Connect(s.T, stream.Config{URL: s.url})
	_, err = s.stream.Setup(s.Context(), []string{"vswitch-ip-exhausted"}, stream.Settings{Clusters: []string{"c1"}})
	s.must(err)
}

// Only answers that the API server proves, of people with the permission, reach the decision on a plan.
func TestApprovals(t *testing.T) {
	c := cluster.Alone(t)
	s := &world{T: t, kube: c, namespace: c.Namespace(t)}
	ctx := t.Context()
	s.begin()
	if given, void := s.read(s.asks(), time.Now()); len(given) > 0 || void != "" {
		t.Errorf("a cluster without Approvals has %+v, %s", given, void)
	}
	remove, err := identity.Approve(ctx, c, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	s.must(err)
	t.Cleanup(func() {
		if err := remove(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	admin, err := kube.New(c.Config)
	s.must(err)
	shell.Until(t, "the kind Approval is served", func() bool { _, err := admin.Approvals(ctx, s.namespace); return err == nil })
	ann, bob := s.as("ann", approver, "network"), s.as("bob", approver)

	early := s.asks()
	first := s.create(ann, early, nil)
	s.refused("no policy", early, "the admission policy lbremedy-approvals is not in the cluster", 0)
	rest, err := identity.Approve(ctx, c, "CustomResourceDefinition", "ClusterRole")
	s.must(err)
	t.Cleanup(func() {
		if err := rest(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	s.refused("too early", early, "nothing proves who created it", 0)
	s.must(identity.Proves(ctx, c))
	s.refused("from before the policy", early, "nothing proves who created it", 0)

	// Once the engine has said so, the person answers again, by an object of another name.
	give := func(by *kube.Cluster, rec event.Record, verdict kube.Verdict) *kube.Approval {
		t.Helper()
		made, err := approval.Answer(ctx, by, rec, approval.Reply{Verdict: verdict, Comment: "CHG-2", Lasts: time.Hour})
		s.must(err)
		return made
	}
	early.Service.Name, early.Service.UID = s.service(early)
	if same := give(ann, early, kube.Approve); same.UID != first.UID {
		t.Errorf("the same answer is %s, and was %s", same.Name, first.Name)
	}
	_, void := s.read(early, time.Now())
	early.Note = say.Literal(void)
	if again := give(ann, early, kube.Approve); again.UID == first.UID {
		t.Errorf("the answer is %s again, which does not count", again.Name)
	}
	s.refused("one of before and one of after", early, "nothing proves who created it", 1)

	// may fails unless the API server refuses the object for this reason.
	may := func(by *kube.Cluster, doing, why string, change func(*kube.Approval)) {
		t.Helper()
		me, err := by.Me(ctx)
		s.must(err)
		rec := s.asks()
		a := approval.To(rec, me, approval.Reply{Verdict: kube.Approve, Lasts: time.Hour})
		change(&a)
		if _, err := by.CreateApproval(ctx, a); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v; want %q", doing, err, why)
		}
		s.refused(doing, rec, "", 0)
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
	may(bob, "without a Service", "invalid", func(a *kube.Approval) { a.Spec.Service = "" })
	may(bob, "for a year", "invalid", func(a *kube.Approval) { a.Spec.ExpirationSeconds = 365 * 24 * 3600 })

	rec := s.asks()
	elsewhere := c.Namespace(t)
	s.create(ann, rec, func(a *kube.Approval) { a.Namespace = elsewhere })
	s.create(ann, rec, func(a *kube.Approval) { a.Name, a.Spec.Service = "service", "other" })
	s.refused("of another namespace, or about another Service", rec, "", 0)
	s.create(ann, rec, func(a *kube.Approval) { a.Name, a.Spec.Cluster = "cluster", "c2" })
	s.refused("of another cluster", rec, "The Approval cluster does not count: it is about the cluster c2, and this is c1.", 0)

	rec = s.asks()
	first = s.create(ann, rec, nil)
	got, _ := s.read(rec, time.Now())
	if len(got) != 1 || got[0].By != "ann" || got[0].Object != string(first.UID) || got[0].Comment != "CHG-1" || got[0].Attempt != 1 ||
		got[0].Rejects || got[0].Case != rec.Case ||
		got[0].Digest != rec.Digest || !slices.Contains(got[0].Groups, "network") || !got[0].At.Equal(first.CreationTimestamp.Time) {
		t.Errorf("it is %+v", got)
	}
	if got, _ := s.read(rec, first.CreationTimestamp.Add(time.Hour-time.Second)); len(got) != 1 {
		t.Errorf("before its end it is %+v", got)
	}
	if got, _ := s.read(rec, first.CreationTimestamp.Add(time.Hour)); len(got) > 0 {
		t.Errorf("after its end it is %+v", got)
	}
	me, err := ann.Me(ctx)
	s.must(err)
	if _, err := ann.CreateApproval(ctx, approval.To(rec, me, approval.Reply{Verdict: kube.Approve})); !errors.Is(err, kube.ErrConflict) {
		t.Errorf("the same answer again: %v", err)
	}
	s.after(first)
	s.create(ann, rec, func(a *kube.Approval) { a.Name = "again" })
	s.create(ann, rec, func(a *kube.Approval) { a.Name, a.Spec.Verdict = "no", kube.Reject })
	if got, _ := s.read(rec, time.Now()); len(got) != 1 || got[0].Object != string(first.UID) {
		t.Errorf("the first answer stays, and there is %+v", got)
	}
	s.create(bob, rec, nil)
	s.refused("bob's, too", rec, "", 2)

	rec = s.asks()
	_, err = approval.Answer(ctx, s.as("system:serviceaccount:chat:lbremedy-notifier", []rbacv1.PolicyRule{
		{APIGroups: []string{"lbremedy.io"}, Resources: []string{"approvals"}, Verbs: []string{"create", "relay"}}}), rec,
		approval.Reply{Verdict: kube.Approve, From: &approval.Chatter{User: kube.User{Name: "ann", Groups: []string{"network"}}, Chat: *chat}})
	s.must(err)
	if got, _ := s.read(rec, time.Now()); len(got) != 1 || got[0].By != "ann" ||
		got[0].Chat != "dingtalk-app user 0123, at the sink ops, by the click c1" || !slices.Equal(got[0].Groups, []string{"network"}) {
		t.Errorf("it is %+v", got)
	}

	client := c.Client().CoreV1().RESTClient()
	path := "/apis/lbremedy.io/v1beta1/namespaces/" + s.namespace + "/approvals/"
	for _, patch := range []string{`{"spec":{"user":"eve"}}`, `{"spec":{"plan":"` + strings.Repeat("1", 32) + `"}}`} {
		if err := client.Patch(types.MergePatchType).AbsPath(path + "again").Body([]byte(patch)).Do(ctx).Error(); err == nil ||
			!strings.Contains(err.Error(), "cannot be changed") {
			t.Errorf("changed by %s: %v", patch, err)
		}
	}

	// A rejection lasts. Only its author revokes it, by an approval.
	rec = s.asks()
	rec.Service.Name, rec.Service.UID = s.service(rec)
	no := give(bob, rec, kube.Reject)
	for after, want := range map[time.Duration]int{approval.RejectionLife - time.Second: 1, approval.RejectionLife: 0} {
		if got, _ := s.read(rec, no.CreationTimestamp.Add(after)); len(got) != want || want > 0 && !got[0].Rejects {
			t.Errorf("after %s there is %+v", after, got)
		}
	}
	said := rec
	said.Result, said.Rejected = event.Planned, &event.Approved{By: "bob", Object: string(no.UID), At: no.CreationTimestamp.Time}
	if _, err := approval.Answer(ctx, ann, said, approval.Reply{Verdict: kube.Approve}); !errors.Is(err, approval.ErrNotAsked) {
		t.Errorf("ann approves what bob has rejected: %v", err)
	}
	back := give(bob, said, kube.Approve)
	if got, _ := s.read(said, time.Now()); len(got) != 1 || got[0].Rejects || got[0].Object != string(back.UID) {
		t.Errorf("it is %+v", got)
	}
	if again := give(bob, said, kube.Approve); again.UID != back.UID {
		t.Errorf("the same once more is %+v", again)
	}

	// An expired answer can be given again; an expiry of one second is only possible in this test.
	short := []byte(`[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/expirationSeconds/minimum","value":1}]`)
	s.must(client.Patch(types.JSONPatchType).AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/approvals.lbremedy.io").Body(short).Do(ctx).Error())
	rec = s.asks()
	rec.Service.Name, rec.Service.UID = s.service(rec)
	brief := approval.To(rec, me, approval.Reply{Verdict: kube.Approve, Lasts: time.Second})
	var gone *kube.Approval
	shell.Until(t, "an answer may be for a second", func() bool { gone, err = ann.CreateApproval(ctx, brief); return err == nil })
	s.after(gone)
	if a := give(ann, rec, kube.Approve); a.UID == gone.UID {
		t.Errorf("it is %+v", a)
	}
	s.refused("after one that expired", rec, "", 1)

	// A policy that lets others in proves nothing, and neither does one that was just repaired.
	weak := `{"spec":{"validationActions":["Warn"]}}`
	bindings := c.Client().AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_, err = bindings.Patch(ctx, approval.Policy, types.MergePatchType, []byte(weak), metav1.PatchOptions{})
	s.must(err)
	s.refused("policy that warns", rec, "lacks the action Deny", 0)
	_, err = bindings.Patch(ctx, approval.Policy, types.MergePatchType, []byte(strings.Replace(weak, "Warn", "Deny", 1)), metav1.PatchOptions{})
	s.must(err)
	s.refused("policy of just now", rec, "nothing proves who created it", 0)

	// Without permission to read them, the answers are unknown.
	for _, without := range approval.Grants {
		if without == grant.WatchApprovals || without == grant.PatchApprovalsStatus {
			continue
		}
		var rules []rbacv1.PolicyRule
		for _, g := range approval.Grants {
			if g != without {
				rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{g.Group}, Resources: []string{g.Resource}, Verbs: []string{g.Verb}})
			}
		}
		if _, _, err := approval.Read(ctx, s.as("without", rules), "c1", rec.Service, time.Now()); !errors.Is(err, kube.ErrDenied) {
			t.Errorf("without %s: %v", without, err)
		}
	}
}

// after waits until the API server's clock is a second past the creation of an Approval.
func (s *world) after(a *kube.Approval) {
	s.Helper()
	admin, err := kube.New(s.kube.Config)
	s.must(err)
	shell.Until(s.T, "a second passes", func() bool {
		now, err := admin.Clock(s.Context())
		s.must(err)
		return now.After(a.CreationTimestamp.Time)
	})
}

func (s *world) service(rec event.Record) (name, uid string) {
	s.Helper()
	svc, err := s.kube.Client().CoreV1().Services(s.namespace).Create(s.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: rec.Service.Name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	s.must(err)
	return svc.Name, string(svc.UID)
}

// A new answer makes the stream deliver the failure again, once, if a plan waits for it; nothing else does. Unreadable data does not prevent it.
func TestRedeliverer(t *testing.T) {
	c := cluster.Alone(t)
	s := &world{T: t, kube: c, namespace: c.Namespace(t)}
	ctx := t.Context()
	s.begin()
	said := make(chan string, 10)
	run := func() (stop func()) {
		w := &approval.Redeliverer{
			Cluster: "c1", Kube: s.engine, Stream: nats.Connect(t, stream.Config{URL: s.url}), Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Said: func(text say.Text) { said <- text.String() },
		}
		ctx, cancel := context.WithCancel(ctx)
		var wait sync.WaitGroup
		wait.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		return func() { cancel(); wait.Wait() }
	}
	stop := run()
	if text := <-said; !strings.Contains(text, "the cluster has no approvals.lbremedy.io") || !strings.Contains(text, "lbremedy run") {
		t.Errorf("without Approvals it says %q", text)
	}
	proven := identity.Approvals(t, c)
	ann := s.as("ann", approver)
	proven()
	for text := ""; text != "Approvals: those in the cluster count."; text = <-said {
		if strings.Contains(text, "has no") {
			t.Error("it says twice that there are none")
		}
	}
	delivered := func(rec event.Record) string {
		t.Helper()
		m, err := s.stream.Last(ctx, stream.Failed, event.FailedSubject(rec.Cluster, rec.Class, rec.Service.UID))
		s.must(err)
		return m.ID()
	}
	wakes := func(doing string, rec event.Record, a *kube.Approval) {
		t.Helper()
		shell.Until(t, doing+": it wakes", func() bool { return delivered(rec) == "approval."+string(a.UID) })
	}

	over, other, forged := s.asks(), s.asks(), s.asks()
	ended := over
	ended.Result = event.Gone
	s.journal(ended)
	elsewhere := c.Namespace(t)
	s.create(ann, over, nil)
	s.create(ann, other, func(a *kube.Approval) { a.Name, a.Spec.Plan = "digest", strings.Repeat("0", 32) })
	s.create(ann, other, func(a *kube.Approval) { a.Name, a.Spec.Attempt = "attempt", 2 })
	s.create(ann, other, func(a *kube.Approval) { a.Name, a.Spec.Case = "case", "ffffffff-20260102T150405" })
	s.create(ann, other, func(a *kube.Approval) { a.Name, a.Spec.Cluster = "cluster", "c2" })
	s.create(ann, forged, func(a *kube.Approval) { a.Namespace = elsewhere })
	rec := s.asks()
	_, err := s.stream.AppendRecord(ctx, rec.Cluster, rec.Service.UID[:8]+"-0000-0000-0000-000000000000", "tag-missing", "x", nil, []byte("no record"), 0)
	s.must(err)
	yes := s.create(ann, rec, nil)
	wakes("beside what can't be read", rec, yes)
	for _, rec := range []event.Record{over, other, forged} {
		if id := delivered(rec); id != rec.Case {
			t.Errorf("%s is delivered again by %s", rec.Case, id)
		}
	}

	stop()
	js := nats.JetStream(t, s.url)
	failed, err := js.Stream(ctx, stream.Failed)
	s.must(err)
	for range 50 {
		full := s.asks() // with the header of a delivery, its failure is too large
		_, err := js.Publish(ctx, event.FailedSubject(full.Cluster, full.Class, full.Service.UID), make([]byte, failed.CachedInfo().Config.MaxMsgSize))
		s.must(err)
		s.create(ann, full, nil)
	}
	rec = s.asks()
	yes = s.create(ann, rec, nil)
	stop = run()
	defer func() { stop() }()
	wakes("while nobody watched, beside failures that can't be delivered again", rec, yes)

	// One person's Approvals do not delay another's, however many they are: the subjects of CASES are not listed for each.
	stop()
	for i := range 200 {
		s.create(ann, other, func(a *kube.Approval) {
			a.Namespace, a.Name, a.Spec.Case = elsewhere, fmt.Sprint("flood-", i), fmt.Sprintf("%08x-20260102T150405", i)
		})
	}
	rec = s.asks()
	yes = s.create(ann, rec, nil)
	lists, err := js.Conn().SubscribeSync("$JS.API.STREAM.INFO." + stream.Cases)
	s.must(err)
	stop = run()
	wakes("after a flood", rec, yes)
	if n, _, err := lists.Pending(); err != nil || n > 20 {
		t.Errorf("CASES was listed by %d requests for 200 Approvals (%v)", n, err)
	}
}

// An Approval says what became of it, however often and by how many engines it is looked at. Only the engine may write that, it never
// decides, and an engine that may not write it still works.
func TestStatus(t *testing.T) {
	c := cluster.Alone(t)
	s := &world{T: t, kube: c, namespace: c.Namespace(t)}
	ctx := t.Context()
	s.begin()
	proven := identity.Approvals(t, c)
	ann, bob := s.as("ann", approver), s.as("bob", approver)
	admin, err := kube.New(c.Config)
	s.must(err)
	proven()
	run := func(engine *kube.Cluster, now func() time.Time) (stop func()) {
		w := &approval.Redeliverer{Cluster: "c1", Kube: engine, Stream: nats.Connect(t, stream.Config{URL: s.url}), Now: now,
			Log: slog.New(slog.DiscardHandler), Said: func(say.Text) {}}
		ctx, cancel := context.WithCancel(ctx)
		var wait sync.WaitGroup
		wait.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		return func() { cancel(); wait.Wait() }
	}
	by := func(a *kube.Approval) *event.Approved {
		return &event.Approved{By: a.Spec.User, Object: string(a.UID), At: a.CreationTimestamp.Time}
	}
	as := func(rec event.Record, result event.Result, change func(*event.Record)) {
		rec.Result = result
		change(&rec)
		s.journal(rec)
	}
	want := map[string]string{} // by name of the Approval
	wants := func(a *kube.Approval, conditions string) { want[a.Name] = conditions }

	made, half, waits := s.asks(), s.asks(), s.asks()
	for rec, conditions := range map[*event.Record]string{&made: "Accepted=True Counted, Applied=True Applied",
		&half: "Accepted=True Counted, Applied=False NotApplied", &waits: "Accepted=True Counted"} {
		a := s.create(ann, *rec, nil)
		wants(a, conditions)
		rec.Approved = by(a)
	}
	made.Attempt, half.Attempt = 1, 1
	late := s.create(bob, made, nil)
	wants(late, "Accepted=False NotAsked")
	as(made, event.Fixed, func(rec *event.Record) { rec.Next = len(rec.Steps) })
	as(half, event.Superseded, func(*event.Record) {})
	as(waits, event.Waiting, func(*event.Record) {})

	rejected := s.asks()
	no := s.create(bob, rejected, func(a *kube.Approval) { a.Spec.Verdict = kube.Reject })
	wants(no, "Accepted=True Counted")
	wants(s.create(ann, rejected, nil), "Accepted=False Rejected")
	as(rejected, event.Planned, func(rec *event.Record) { rec.Rejected = by(no) })

	other := s.asks()
	stale := s.create(ann, other, func(a *kube.Approval) { a.Spec.Plan = strings.Repeat("0", 32) })
	wants(stale, "Accepted=False PlanChanged")
	barred, second, open := s.asks(), s.asks(), s.asks()
	for rec, tt := range map[*event.Record]struct {
		needs      remedy.ApprovalRule
		conditions string
	}{
		&barred: {remedy.ApprovalRule{From: []string{remedy.FromGroup + "network"}}, "Accepted=False NotAllowed"},
		&second: {remedy.ApprovalRule{Needs: 2}, "Accepted=Unknown MoreNeeded"},
	} {
		a := s.create(ann, *rec, nil)
		wants(a, tt.conditions)
		given, _ := s.read(*rec, time.Now())
		if (approval.Answers{Given: given}).Approved(rec, 1, remedy.Policy{Approvals: []remedy.ApprovalRule{tt.needs}}.Consent(remedy.High)) {
			t.Fatalf("%s is approved", rec.Case)
		}
		s.journal(*rec)
	}
	good := s.create(ann, open, nil)
	wants(good, "")
	wants(s.create(ann, open, func(a *kube.Approval) { a.Name, a.Spec.Case = "foreign", "ffffffff-20260102T150405" }), "")

	conditions := func(a kube.Approval) string {
		var all []string
		for _, one := range a.Status.Conditions {
			if one.Message == "" || one.LastTransitionTime.IsZero() {
				t.Errorf("%s has %+v", a.Name, one)
			}
			all = append(all, fmt.Sprintf("%s=%s %s", one.Type, one.Status, one.Reason))
		}
		return strings.Join(all, ", ")
	}
	get := func(name string) kube.Approval {
		t.Helper()
		all, err := admin.Approvals(ctx, s.namespace)
		s.must(err)
		return all[slices.IndexFunc(all, func(a kube.Approval) bool { return a.Name == name })]
	}
	versions := map[string]string{}
	settle := func(doing string) {
		t.Helper()
		shell.Until(t, doing, func() bool {
			all, err := admin.Approvals(ctx, s.namespace)
			s.must(err)
			for _, a := range all {
				if conditions(a) != want[a.Name] {
					return false
				}
				versions[a.Name] = a.ResourceVersion
			}
			return len(all) == len(want)
		})
	}
	stop, twin := run(s.engine, time.Now), run(s.engine, time.Now)
	settle("two engines have said on each what became of it")
	stop()
	twin()

	// The next engine catches up, and writes no condition twice.
	before := maps.Clone(versions)
	gone := s.asks()
	yes := s.create(ann, gone, nil)
	wants(yes, "Accepted=False NotAsked")
	as(gone, event.Gone, func(*event.Record) {})
	stop = run(s.engine, time.Now)
	settle("the next engine says it")
	if before[yes.Name] = versions[yes.Name]; !maps.Equal(before, versions) {
		t.Errorf("written again: versions were %v, and are %v", before, versions)
	}
	// A new record changes the conditions at once.
	as(waits, event.Fixed, func(rec *event.Record) { rec.Next, rec.Attempt = len(rec.Steps), 1 })
	for name := range want {
		if strings.HasPrefix(name, waits.Case[:8]) {
			want[name] = "Accepted=True Counted, Applied=True Applied"
		}
	}
	settle("the plan that waited is applied")
	stop()

	// Only the engine writes it.
	client := c.Client().CoreV1().RESTClient()
	forge := []byte(`{"status":{"conditions":[{"type":"Accepted","status":"True","reason":"Counted","message":"m","lastTransitionTime":"2026-01-02T15:04:05Z"},` +
		`{"type":"Applied","status":"True","reason":"Applied","message":"m","lastTransitionTime":"2026-01-02T15:04:05Z"}]}}`)
	path := "/apis/lbremedy.io/v1beta1/namespaces/" + s.namespace + "/approvals/" + late.Name
	if err := client.Patch(types.MergePatchType).AbsPath(path + "/status").Body(forge).Do(ctx).Error(); err == nil ||
		!strings.Contains(err.Error(), "only lbremedy writes the status") {
		t.Errorf("an administrator writes the status: %v", err)
	}
	s.must(client.Patch(types.MergePatchType).AbsPath(path).Body(forge).Do(ctx).Error()) // beside the subresource it is ignored
	settle("nothing has changed")

	// A forged status decides nothing.
	forger := s.as("system:serviceaccount:lbremedy:lbremedy-up", []rbacv1.PolicyRule{{APIGroups: []string{"lbremedy.io"},
		Resources: []string{"approvals", "approvals/status"}, Verbs: []string{"watch", "patch"}}})
	for a, status := range map[*kube.Approval]metav1.ConditionStatus{stale: metav1.ConditionTrue, good: metav1.ConditionFalse} {
		s.must(forger.PatchApprovalStatus(ctx, get(a.Name), []metav1.Condition{
			{Type: approval.Accepted, Status: status, Reason: "Forged", Message: "forged", LastTransitionTime: metav1.Now()}}))
	}
	for rec, want := range map[*event.Record]bool{&other: false, &open: true} {
		given, _ := s.read(*rec, time.Now())
		if got := (approval.Answers{Given: given}).Approved(rec, 1, remedy.Consent{Needs: 1}); got != want || len(given) == 0 {
			t.Errorf("%s is approved with a forged status: %t, want %t, by %+v", rec.Case, got, want, given)
		}
	}

	// An answer wakes the engine whether or not it may write the status. An expired one says so.
	var rules []rbacv1.PolicyRule
	for _, g := range approval.Grants {
		if g != grant.PatchApprovalsStatus {
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{g.Group}, Resources: []string{g.Resource}, Verbs: []string{g.Verb}})
		}
	}
	rec := s.asks()
	yes = s.create(ann, rec, nil)
	stop = run(s.as("system:serviceaccount:lbremedy:lbremedy-up", rules), time.Now)
	shell.Until(t, "it wakes", func() bool {
		m, err := s.stream.Last(ctx, stream.Failed, event.FailedSubject(rec.Cluster, rec.Class, rec.Service.UID))
		s.must(err)
		return m.ID() == "approval."+string(yes.UID)
	})
	stop()
	stop = run(s.engine, func() time.Time { return time.Now().Add(90 * time.Minute) })
	defer stop()
	shell.Until(t, "it says that it has expired", func() bool { return conditions(get(yes.Name)) == "Accepted=False Expired" })
}
