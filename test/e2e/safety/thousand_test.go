package safety

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/rig"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// TestThousand makes a thousand Services fail for one cause, a missing action in a RAM policy. One incident and one ticket list
// them all. When the policy allows the fix, the RAM policy is extended once, at most as many Services are written as the budget
// has places, and their resync steps are two seconds apart.
func TestThousand(t *testing.T) {
	t.Parallel()
	const again, places = 40, 5
	thousand := 1000
	if testing.Short() { // with the race detector, each takes ten times as long
		thousand = 150
	}
	f := testbed.NoListener().As("web-0000")
	r := rig.New(t, f.Config, rig.Careful)
	r.Must(r.Testbed.Fail(r.Ctx, f))
	r.Must(r.Testbed.Halt(r.Ctx)) // one controller takes too long for a thousand
	failed, ok := r.Testbed.Event(f.Service)
	if !ok {
		t.Fatal("nobody says that it failed")
	}
	d := newReceiver(r, time.Time{})
	r.Policy(rig.Careful + "tell:\n" + d.tells("ops"))
	crowd(r, thousand-1, failed.Message)
	began := time.Now()
	r.Start()
	r.Tell()
	asked := func() int { return stand(r, func(rec event.Record) bool { return rec.Result == event.Asked }) }
	if err := r.Testbed.Until(r.Ctx, func() bool { return asked() == thousand }); err != nil {
		t.Fatalf("of %d Services %d have asked: %v; %v", thousand, asked(), err, tally(r))
	}
	t.Logf("%d Services have asked after %s", thousand, time.Since(began))
	told := d.hears("a thousand fail", func(t notification) bool { return t.Data.Failing == thousand })
	if f := told.Data.Facts; len(f.Services)+f.More != thousand || !strings.Contains(told.Data.Text, fmt.Sprint(thousand)+" Services") {
		t.Errorf("the ticket tells of %d Services and %d more: %s", len(f.Services), f.More, told.Data.Text)
	}
	if keys := d.keys(); len(keys) != 1 {
		t.Errorf("there are %d tickets", len(keys))
	}

	r.Policy(rig.Bold[:strings.Index(rig.Bold, "budgets:")] + "budgets: {least: 1000}\ntell:\n" + d.tells("ops"))
	at := time.Now() // before any fix: later failures have another cause
	for i := range again {
		r.ComplainAt(r.Service(crowded(i)), failed.Message, at)
	}
	written := func(rec event.Record) bool { return rec.Done() }
	held := func(rec event.Record) bool { return rec.Held == event.HeldByBudget }
	if err := r.Testbed.Until(r.Ctx, func() bool { return stand(r, written) == places && stand(r, held) == again-places }); err != nil {
		t.Fatalf("%d are written to and %d wait: %v; %v", stand(r, written), stand(r, held), err, tally(r))
	}
	if writes := r.Testbed.WorkerWrites(); !slices.Equal(writes, []string{"ram:CreatePolicyVersion"}) {
		t.Errorf("the worker has written to the cloud: %v", writes)
	}
	var touches []time.Time
	for i := range again {
		for _, rec := range r.Records(crowded(i)) {
			if rec.Done() && !slices.Contains(touches, rec.Written) {
				touches = append(touches, rec.Written)
			}
		}
	}
	slices.SortFunc(touches, time.Time.Compare)
	if n := len(touches); n != places || touches[n-1].Sub(touches[0]) < time.Duration(n-1)*2*time.Second-time.Second {
		t.Errorf("the Services were woken at %v", touches)
	}
}

func crowded(i int) string { return fmt.Sprintf("web-%04d", i) }

func crowd(r *rig.Rig, n int, message string) {
	r.Helper()
	client := r.Testbed.Cluster.Client().CoreV1()
	var wait sync.WaitGroup
	queue := make(chan int)
	for range 16 {
		wait.Go(func() {
			for i := range queue {
				svc := rig.Bare(crowded(i + 1))
				svc.Spec.Ports[0].Protocol = corev1.ProtocolUDP
				svc.Spec.AllocateLoadBalancerNodePorts = new(false) // too few ports for all
				made, err := client.Services(r.Testbed.Namespace).Create(r.Ctx, svc, metav1.CreateOptions{})
				if err == nil {
					_, err = client.Events(r.Testbed.Namespace).Create(r.Ctx, rig.Complaint(made, message, time.Now()), metav1.CreateOptions{})
				}
				if err != nil && r.Ctx.Err() == nil {
					r.Errorf("make Service %d: %v", i, err)
				}
			}
		})
	}
	for i := range n {
		queue <- i
	}
	close(queue)
	wait.Wait()
	r.Cleanup(func() {
		zero := int64(0)
		options := metav1.DeleteOptions{GracePeriodSeconds: &zero}
		err := client.Events(r.Testbed.Namespace).DeleteCollection(context.WithoutCancel(r.Ctx), options, metav1.ListOptions{})
		if err != nil {
			r.Error(err)
		}
	})
}

func stand(r *rig.Rig, wanted func(event.Record) bool) (n int) {
	seen := map[string]bool{}
	for _, rec := range slices.Backward(r.Journal()) {
		if seen[rec.Service.UID] {
			continue
		}
		seen[rec.Service.UID] = true
		if wanted(rec) {
			n++
		}
	}
	return n
}

func tally(r *rig.Rig) map[string]int {
	last := map[string]event.Record{}
	for _, rec := range r.Journal() {
		last[rec.Service.UID] = rec
	}
	n := map[string]int{}
	for _, rec := range last {
		n[strings.Join([]string{string(rec.Phase), string(rec.Result), string(rec.Held), rec.Error}, " ")]++
	}
	return n
}
