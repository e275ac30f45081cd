package safety

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/ticket"
	"github.com/lbremedy/lbremedy/test/rig"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/testbed"
)

var secret = base64.StdEncoding.EncodeToString([]byte("sixteen bytes or more"))

type receiver struct {
	r     *rig.Rig
	url   string
	opens time.Time // time of the sinks' clock before which it is down

	mu   sync.Mutex
	came []notification
	late int // calls before it opened
}

type notification struct {
	Type string        `json:"type"`
	Data ticket.Notice `json:"data"`
}

func newReceiver(r *rig.Rig, opens time.Time) *receiver {
	d := &receiver{r: r, opens: opens}
	server := httptest.NewServer(d)
	r.Cleanup(server.Close)
	d.url = server.URL
	return d
}

func (d *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err == nil {
		err = d.take(req.Header, body)
	}
	if err != nil {
		d.r.Errorf("a webhook got what it can't take: %v", err)
	}
	if d.r.Now().Before(d.opens) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (d *receiver) take(h http.Header, body []byte) error {
	id, at := h.Get("webhook-id"), h.Get("webhook-timestamp")
	key, err := base64.StdEncoding.DecodeString(secret)
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); h.Get("webhook-signature") != want {
		return fmt.Errorf("it is signed with %q, want %q", h.Get("webhook-signature"), want)
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return err
	}
	// A request sent before the clock was advanced is older by that step.
	most := 5*time.Minute + d.r.Step()
	if old := d.r.Now().Sub(time.Unix(seconds, 0)); id == "" || old < -time.Minute || old > most {
		return fmt.Errorf("the message %q is %s old", id, old)
	}
	var t notification
	if err := json.Unmarshal(body, &t); err != nil {
		return err
	}
	d.mu.Lock()
	if d.r.Now().Before(d.opens) {
		d.late++
	} else {
		d.came = append(d.came, t)
	}
	d.mu.Unlock()
	d.r.Testbed.Wake()
	return nil
}

func (d *receiver) hears(what string, wanted func(notification) bool) notification {
	d.r.Helper()
	var found notification
	err := d.r.Testbed.Until(d.r.Ctx, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		i := slices.IndexFunc(d.came, wanted)
		if i >= 0 {
			found = d.came[i]
		}
		return i >= 0
	})
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		var last notification
		if len(d.came) > 0 {
			last = d.came[len(d.came)-1]
		}
		d.r.Fatalf("nobody tells that %s: %v; %d notifications came and %d before the receiver opened, the last is %s %s", what, err, len(d.came), d.late,
			last.Type, last.Data.Text)
	}
	return found
}

func (d *receiver) keys() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, t := range d.came {
		if !slices.Contains(all, t.Data.Key) {
			all = append(all, t.Data.Key)
		}
	}
	return all
}

func (d *receiver) tells(name string) string {
	return fmt.Sprintf("- {name: %s, kind: webhook, url: %q, secretFrom: {file: %q}}\n", name, d.url, shell.File(d.r, "key", secret))
}

// TestTicket: a ticket is opened once, updated while Services join, closed with the outcome, and reopened instead of duplicated: by
// webhook, at Alibaba Cloud's support, and as Events on the Services. A webhook that is down for an hour delays nobody and misses nothing.
func TestTicket(t *testing.T) {
	t.Parallel()
	r := rig.New(t, testbed.Config{}, rig.Careful).Start()
	up, down := newReceiver(r, time.Time{}), newReceiver(r, r.Now().Add(time.Hour))
	r.Policy(rig.Careful + "budgets: {class: 100, least: 100}\ntell:\n" + up.tells("ops") + down.tells("down") +
		"- {name: events, kind: event}\n- {name: support, kind: alibaba, category: \"53811\"}\n")
	r.Tell()
	room := func(free int) {
		r.Testbed.Cloud.SetFree(testbed.SmallVSwitchH, 0)
		r.Testbed.Cloud.SetFree(testbed.RoomyVSwitchI, free)
	}

	room(0)
	r.Create("one", nil)
	first := up.hears("it is open", func(t notification) bool { return t.Type == ticket.TypeOpened })
	if f := first.Data.Facts; f.Failing != 1 || f.Cause != testbed.FullVSwitchH || f.Impact != event.NeverUp || f.Services[0].Service.Name != "one" {
		t.Errorf("the ticket tells of %+v", f)
	}
	for _, part := range []string{"Add a vSwitch to the VPC", "has no address", first.Data.LogQuery} {
		if part == "" || !strings.Contains(first.Data.Text, part) {
			t.Errorf("the ticket does not say %q: %s", part, first.Data.Text)
		}
	}
	complain(r, "one", "LBRemedyNeedsAction", corev1.EventTypeWarning, "Add a vSwitch to the VPC")
	support(r, func(k sim.Ticket) bool { return k.Status == "in_progress" && strings.Contains(k.Description, "/one") })

	r.Create("two", nil)
	r.Ends("two", event.Asked)
	r.Advance(time.Minute)
	joined := up.hears("two Services fail", func(t notification) bool { return t.Type == ticket.TypeUpdate && t.Data.Failing == 2 })
	support(r, func(k sim.Ticket) bool { return strings.Contains(strings.Join(k.Notes, "\n"), "/two") })
	r.Says(0, "cluster-"+testbed.ClusterID+"."+rig.Full, "", "tickets", "ls")
	r.Says(0, "ops: open, "+joined.Data.Key, "", "show", r.Testbed.Namespace+"/two")

	room(50)
	r.Ends("one", event.Fixed)
	r.Ends("two", event.Fixed)
	r.Advance(time.Minute)
	over := up.hears("it is over", func(t notification) bool { return t.Type == ticket.TypeClosed && t.Data.Failing == 0 })
	if over.Data.Outcomes[event.Fixed] != 2 || over.Data.Over != 2 {
		t.Errorf("it ended with %v", over.Data.Outcomes)
	}
	complain(r, "one", "LBRemedyFixed", corev1.EventTypeNormal, "")
	support(r, func(k sim.Ticket) bool { return k.Status == "completed" })

	room(0)
	r.Advance(time.Minute)
	r.Create("three", nil)
	again := up.hears("it is open again", func(t notification) bool { return t.Type == ticket.TypeOpened && t.Data.Reopened })
	if again.Data.Failing != 1 || again.Data.Lead.Service.Name != "three" {
		t.Errorf("the ticket tells of %+v", again.Data.Facts)
	}
	support(r, func(k sim.Ticket) bool { return k.Status != "completed" })

	if down.mu.Lock(); len(down.came) > 0 || down.late == 0 {
		t.Errorf("the webhook that is down was tried %d times", down.late)
	}
	down.mu.Unlock()
	r.Advance(time.Hour)
	found := down.hears("it is open", func(t notification) bool { return t.Type == ticket.TypeOpened })
	var names []string
	for _, m := range found.Data.Services {
		names = append(names, m.Service.Name+" "+string(m.Result))
	}
	if want := []string{"three asked", "one fixed", "two fixed"}; !slices.Equal(names, want) {
		t.Errorf("the webhook that was down is told of %v, want %v", names, want)
	}
	if keys := append(up.keys(), down.keys()...); len(keys) != 2 {
		t.Errorf("there are the tickets %v, and there is one incident at two receivers", keys)
	}
	room(50)
	r.Ends("three", event.Fixed)
	r.Advance(time.Minute)
	down.hears("it is over", func(t notification) bool { return t.Type == ticket.TypeClosed && t.Data.Outcomes[event.Fixed] == 3 })
}

// TestOneCause: a node without a route is one ticket. A Service without a usable node because of it waits and refers to that case.
func TestOneCause(t *testing.T) {
	t.Parallel()
	f := testbed.NoRoute().As("lonely")
	r := rig.New(t, f.Config, rig.Careful).Start()
	d := newReceiver(r, time.Time{})
	r.Policy(rig.Careful + "tell:\n" + d.tells("ops"))
	r.Tell()
	r.Must(r.Testbed.Fail(r.Ctx, f))
	opened := d.hears("the node has no route", func(t notification) bool { return t.Type == ticket.TypeOpened })
	node := r.Testbed.About(f).Name
	if lead := opened.Data.Lead.Service; lead.Kind != event.KindNode || lead.Name != node {
		t.Errorf("the ticket is about %s", lead)
	}

	pods := r.Testbed.Cluster.Client().CoreV1().Pods(r.Testbed.Namespace)
	pod, err := pods.Create(r.Ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "x"}}},
	}, metav1.CreateOptions{})
	r.Must(err)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/3 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/network-unavailable: }, 2 Insufficient cpu."}}
	_, err = pods.UpdateStatus(r.Ctx, pod, metav1.UpdateOptions{})
	r.Must(err)
	r.Create("web", func(svc *corev1.Service) {
		svc.Annotations = nil
		svc.Spec.Selector, svc.Spec.ExternalTrafficPolicy = map[string]string{"app": "web"}, corev1.ServiceExternalTrafficPolicyLocal
	})
	points := func(rec event.Record) bool {
		said := rec.Finding.String()
		return rec.Result == event.Waiting && strings.Contains(said, "not created a route to these nodes") && strings.Contains(said, node) &&
			strings.Contains(rec.Ask.String(), "lbremedy ls --open")
	}
	rec := r.Until("web", "waiting for the node", points)
	r.Advance(time.Hour) // any other Service without a backend asks within a quarter of an hour
	m, err := r.Stream.Last(r.Ctx, stream.Failed, event.FailedSubject(testbed.ClusterID, rec.Class, rec.Service.UID))
	r.Must(err)
	failure, err := event.DecodeNATS(m.Header, m.Data)
	r.Must(err)
	if reply := (&host.Host{Env: r.Env.Env, Remedies: functions.All}).Handle(r.Ctx, failure); reply.Err != nil || !points(reply.Record) {
		t.Errorf("after an hour, the Service is %s: %s %s %v", reply.Record.Result, reply.Record.Finding, reply.Record.Ask, reply.Err)
	}

	if keys := d.keys(); len(keys) != 1 {
		t.Errorf("there are the tickets %v, and there is one cause", keys)
	}
}

func complain(r *rig.Rig, service, reason, kind, text string) {
	r.Helper()
	var ours []corev1.Event
	err := r.Testbed.Until(r.Ctx, func() bool {
		list, err := r.Testbed.Cluster.Client().CoreV1().Events(r.Testbed.Namespace).List(r.Ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + service})
		if err != nil {
			return false
		}
		ours = slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return e.Source.Component != "lbremedy" })
		return len(ours) == 1 && ours[0].Reason == reason && ours[0].Type == kind && strings.Contains(ours[0].Message, text)
	})
	if err != nil {
		r.Fatalf("no Event %s is there: %v; there are %+v", reason, err, ours)
	}
	if ours[0].InvolvedObject.UID != r.Service(service).UID {
		r.Errorf("the Event is about %+v", ours[0].InvolvedObject)
	}
}

func support(r *rig.Rig, wanted func(sim.Ticket) bool) {
	r.Helper()
	var all []sim.Ticket
	err := r.Testbed.Until(r.Ctx, func() bool {
		all = r.Testbed.Cloud.Snapshot().Tickets
		return len(all) == 1 && wanted(all[0])
	})
	if err != nil {
		r.Fatalf("the ticket with support is not as it should be: %v; there are %+v", err, all)
	}
}
