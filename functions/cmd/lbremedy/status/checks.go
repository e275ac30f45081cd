package status

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/events/exporter"
	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// declared returns the grants of the classes and the exporter, and more; grants that write only if writes is set.
func declared(writes bool, more ...grant.Grant) []grant.Grant {
	all := slices.Concat(exporter.Grants, more)
	for _, r := range functions.All {
		all = append(all, r.Grants()...)
	}
	return slices.DeleteFunc(grant.Set(all), func(g grant.Grant) bool { return !writes && !cli.Reads(g) })
}

func (f *flight) kubernetes(ctx context.Context) Check {
	before := f.Now()
	at, err := f.env.Kube.Clock(ctx)
	if err != nil {
		return result(Problem, sentence(err), say.F("Correct --kubeconfig and --context, or open the way to the API server."))
	}
	f.clocks.add(say.F("the API server"), at, before, f.Now())
	return well(say.F("The API server answers."))
}

func (f *flight) rights(ctx context.Context) Check {
	var lacks, doctors []string // the doctor's are in a role of their own
	n, own := 0, declared(f.fix)
	for _, g := range declared(f.fix, checks.Grants()...) {
		if g.RAM() {
			continue
		}
		n++
		r := kube.Review{Group: g.Group, Verb: g.Verb}
		r.Resource, r.Subresource, _ = strings.Cut(g.Resource, "/")
		if g == grant.ListDaemonSets || g == grant.GetServiceAccounts {
			r.Namespace = "kube-system" // namespace of the controller
		}
		if g == grant.GetDeployments {
			r.Namespace, r.Name = ccm.IngressNamespace, ccm.IngressController
		}
		ok, err := f.env.Kube.MayI(ctx, r)
		if err != nil {
			return result(Unknown, sentence(err), say.F("Make sure that the credentials of the kubeconfig are good."))
		}
		switch {
		case ok:
		case slices.Contains(own, g):
			lacks = append(lacks, g.String())
		default:
			doctors = append(doctors, g.String())
		}
	}
	switch {
	case len(lacks) > 0:
		return result(Problem, say.F("%d of %d rights in Kubernetes are missing: %s.", len(lacks), n, say.List(lacks, 8)),
			say.F("Apply infra/cluster/rbac.yaml, and bind the ClusterRole lbremedy-up to whoever runs lbremedy."))
	case len(doctors) > 0:
		return result(Well, say.F("All %d rights of the classes in Kubernetes are there. The doctor needs %d more: %s.", n-len(doctors), len(doctors),
			say.List(doctors, 8)), say.F("To run the doctor, too, bind the ClusterRole lbremedy-doctor as well."))
	}
	return well(say.F("All %d rights in Kubernetes are there.", n))
}

type meter func(cloud.Call)

type reach struct {
	now      func() time.Time
	mu       sync.Mutex
	products map[string]bool // false: none of its calls was answered
	date, at time.Time       // of the first answer, by the cloud's clock and by ours
}

func (r *reach) met(c cloud.Call) {
	at := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.products == nil {
		r.products = map[string]bool{}
	}
	r.products[c.Product] = r.products[c.Product] || c.Status != 0
	if r.date.IsZero() {
		r.date, r.at = c.Date, at
	}
}

func (f *flight) cloud(ctx context.Context) Check {
	// No other check calls these. Only the fact of an answer counts.
	_, _ = f.env.Clients.Cloud.ECS.SecurityGroups(ctx, ccm.NameTag, "lbremedy-preflight")
	_, _ = f.env.Clients.Cloud.Billing.Balance(ctx)
	_, err := f.env.Clients.Cloud.STS.Identity(ctx)
	f.reach.mu.Lock()
	defer f.reach.mu.Unlock()
	f.clocks.add(say.F("Alibaba Cloud"), f.reach.date, f.reach.at, f.reach.at)
	var silent []string
	all := slices.Sorted(maps.Keys(f.reach.products))
	for _, product := range all {
		if !f.reach.products[product] {
			silent = append(silent, product)
		}
	}
	var refused *cloud.Error
	switch detail := f.snap.Failed[doctor.Detail]; {
	case len(all) == 0 && err != nil:
		return result(Problem, sentence(err), say.F("Set ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET, or log in with the aliyun command."))
	case len(silent) > 0:
		return result(Problem, say.F("Endpoints of Alibaba Cloud do not answer: %s.", strings.Join(silent, ", ")),
			say.F("Open the way to them: a NAT gateway, a proxy, or --cloud-vpc inside the VPC."))
	case errors.As(err, &refused) && cli.BadKey(refused.Code):
		return result(Problem, say.F("Alibaba Cloud refuses the access key: %s", sentence(err)), say.F("Give another key, or log in again."))
	case errors.Is(detail, cloud.ErrNotFound):
		return result(Problem, say.F("The account has no ACK cluster %q in %s.", f.Cluster, f.Region), say.F("Correct --cluster or --region."))
	case detail == nil && f.snap.Detail.Region != "" && f.snap.Detail.Region != f.Region:
		return result(Problem, say.F("The cluster %s is in the region %s and not in %s.", f.Cluster, f.snap.Detail.Region, f.Region), say.F("Correct --region."))
	case detail != nil:
		return result(Unknown, sentence(detail), say.F("Allow the RAM action cs:DescribeClusterDetail."))
	}
	return well(say.F("All endpoints answer, and the account has the cluster: %s.", strings.Join(all, ", ")))
}

func (f *flight) ram(ctx context.Context) Check {
	me, err := f.env.Clients.Cloud.STS.Identity(ctx)
	if err != nil {
		return result(Unknown, sentence(err), say.F("Make sure that the access key is good."))
	}
	kind, of, _ := strings.Cut(me.ARN[strings.LastIndexByte(me.ARN, ':')+1:], "/")
	role, _, _ := strings.Cut(of, "/")
	switch kind {
	case "root":
		return result(Well, say.F("The access key is that of the account itself, which may do everything."),
			say.F("Use a RAM role for lbremedy: see infra/ram/roles.sh."))
	case "assumed-role":
	default:
		return result(Unknown, say.F("The access key belongs to %s, and only the policies of a RAM role can be read from here.", me.ARN),
			say.F("Run it with the RAM role that lbremedy will have."))
	}
	view := ccm.View{Kube: f.env.Kube, Cloud: f.env.Clients.Cloud}
	has, err := view.RoleNamed(ctx, role)
	if err != nil {
		return result(Unknown, sentence(err),
			say.F("Allow ram:ListPoliciesForRole and ram:GetPolicy, or compare the role with the policies of infra/ram/roles.sh by hand."))
	}
	lacking := func(actions []string) []string {
		return slices.DeleteFunc(slices.Clone(actions), func(action string) bool {
			said := ccm.Says(has.Rules, action)
			return said != ccm.NotAllowed && said != ccm.Denied
		})
	}
	actions := grant.Actions(declared(f.fix))
	if lacks := lacking(actions); len(lacks) > 0 {
		return result(Problem, say.F("The RAM role %s lacks %d of %d actions: %s.", role, len(lacks), len(actions), say.List(lacks, 8)),
			say.F("Give the role the policies that infra/ram/roles.sh makes."))
	}
	// The role has the doctor's actions only if roles.sh was told that the doctor runs in the same Pod.
	if lacks := lacking(grant.Actions(checks.Grants())); len(lacks) > 0 {
		return result(Well, say.F("The RAM role %s allows all %d actions of the classes. The doctor needs %d more: %s.",
			role, len(actions), len(lacks), say.List(lacks, 8)), say.F("To run the doctor, too, run infra/ram/roles.sh with --class up --doctor."))
	}
	actions = grant.Actions(declared(f.fix, checks.Grants()...))
	return well(say.F("The RAM role %s allows all %d actions.", role, len(actions)))
}

// nats adds the checks of NATS, of its streams and of the policy in them.
func (f *flight) nats(ctx context.Context) {
	s, err := f.Stream(ctx)
	if err != nil {
		f.add("nats", f.away(err))
		f.policy(ctx, nil)
		return
	}
	defer s.Close()
	room, err := s.Storage(ctx)
	switch {
	case errors.Is(err, stream.ErrDenied):
		f.add("nats", well(say.F("NATS at %s answers.", s.Where())))
		f.add("streams", result(Unknown, sentence(err), say.F("Run it as the user of NATS that runs lbremedy up --setup.")))
	case err != nil:
		f.add("nats", result(Problem, sentence(err), say.F("Give the account of NATS a JetStream.")))
	default:
		f.clocks.add(say.Literal("NATS"), room.Date, f.Now(), f.Now())
		f.add("nats", well(say.F("NATS at %s answers, with JetStream.", s.Where())))
		f.add("streams", streams(room))
		if len(room.Fills) == 0 {
			s = nil // it holds no policy yet
		}
	}
	f.policy(ctx, s)
}

func (f *flight) away(err error) Check {
	if f.NATS != "" || f.Known() && !errors.Is(err, stream.ErrUnavailable) {
		return result(Problem, sentence(err), say.F("Start NATS, or correct --nats and its credentials."))
	}
	dir, err := f.StateDir()
	if err != nil {
		return result(Problem, sentence(err), say.F("Name NATS with --nats, or a directory with --state-dir."))
	}
	return well(say.F("No NATS is named: \"lbremedy up\" runs its own, in %s.", dir))
}

func streams(room stream.Storage) Check {
	for _, s := range room.Fills {
		if s.Stream == stream.Cases && s.Limit > 0 && float64(s.Bytes) > 0.9*float64(s.Limit) {
			return result(Problem, say.F("The journal is full to %d %%. A full journal refuses records, and with them writes.", int64(100*s.Bytes/s.Limit)),
				say.F("Make it larger with lbremedy up --setup --journal-size."))
		}
	}
	switch {
	case len(room.Missing) == 0:
		return well(say.F("The streams are there and have room."))
	case room.Free >= 0 && room.Free < room.Needs:
		return result(Problem, say.F("The account of NATS has %d MiB of storage left, and the streams %s reserve %d MiB.",
			max(0, room.Free)>>20, strings.Join(room.Missing, ", "), room.Needs>>20),
			say.F("Give the account more storage, or choose smaller sizes with lbremedy up --setup --journal-size and --failures-size."))
	default:
		return well(say.F("The streams %s are not there yet, and there is room: \"lbremedy up\" creates them.", strings.Join(room.Missing, ", ")))
	}
}

type clocks struct {
	names []say.Text
	worst time.Duration
	of    say.Text
}

// add compares a clock that was read between two local times. A zero time is unknown.
func (c *clocks) add(name say.Text, at, before, after time.Time) {
	if at.IsZero() {
		return
	}
	c.names = append(c.names, name)
	off := at.Sub(before.Add(after.Sub(before) / 2))
	if off.Abs() > c.worst.Abs() || c.of == nil {
		c.worst, c.of = off, name
	}
}

// apart is how far a clock may be off. Alibaba Cloud refuses requests that are 15 minutes off; leases, approvals and pauses also depend on clocks.
const apart = 30 * time.Second

func (f *flight) clock() Check {
	c := f.clocks
	off := c.worst.Abs().Round(time.Second)
	switch {
	case len(c.names) == 0:
		return result(Unknown, say.F("No clock could be compared with the one here."), say.F("Correct the access to the cluster and to Alibaba Cloud first."))
	case off > apart:
		text := say.F("The clock here is %s behind that of %s.", off, c.of)
		if c.worst < 0 {
			text = say.F("The clock here is %s ahead of that of %s.", off, c.of)
		}
		return result(Problem, text, say.F("Synchronize the clocks with NTP."))
	default:
		return well(say.F("The clock here agrees with %s.", say.Items(c.names, len(c.names))))
	}
}

func (f *flight) quotas(ctx context.Context) Check {
	all := checks.Checks()
	all = all[slices.IndexFunc(all, func(c *doctor.Check) bool { return c.ID == "room" }):][:1]
	found := doctor.Examine(ctx, f.snap, all)
	of := func(a doctor.About) bool { return a.Kind == "" || a.Kind == doctor.Account }
	for _, one := range found.Findings {
		if of(one.About) {
			return result(Problem, one.Text, one.Do)
		}
	}
	for _, one := range found.Unknown {
		if of(one.About) {
			return result(Unknown, say.F("%s.", one.Why),
				say.F("Allow the RAM actions quotas:ListProductQuotas, slb:DescribeLoadBalancers and nlb:ListLoadBalancers."))
		}
	}
	return well(say.F("The account can have more load balancers in the region."))
}

func (f *flight) controller() Check {
	err := f.snap.Err(doctor.Controller)
	runs := f.snap.Controller.Version
	switch {
	case err != nil:
		return result(Unknown, sentence(err), say.F("Allow to list DaemonSets in kube-system, or the RAM action cs:DescribeClusterAddonsVersion."))
	case runs == ccm.Version{}:
		return result(Unknown, ccm.NoVersion(), say.F("Make sure that the cloud controller manager runs in this cluster."))
	case runs.TooNew():
		return result(Problem, say.F("The controller is %s, and lbremedy knows releases up to %s.", runs, ccm.Newest()),
			say.F("Use a newer lbremedy, or let this one only observe."))
	default:
		return well(say.F("The controller is %s, and its releases are known up to %s.", runs, ccm.Newest()))
	}
}

func (f *flight) approvals(ctx context.Context) Check {
	do := say.F("Apply infra/cluster/approvals.yaml, or set rbac.approvals of the chart.")
	_, err := f.env.Kube.Approvals(ctx, "default")
	if errors.Is(err, kube.ErrNotFound) {
		r := Well
		if f.answers {
			r = Problem
		}
		return result(r, say.F("The cluster has no %s. To apply a plan that needs approval: %s.", approval.Kind, approval.ByHand), do)
	}
	if err == nil {
		_, err = approval.Since(ctx, f.env.Kube)
	}
	switch {
	case approval.Unguarded(err):
		return result(Problem, say.F("Approvals in the cluster do not count: %s.", say.Of(err)), do)
	case err != nil:
		return result(Unknown, sentence(err), say.F("Bind the ClusterRole lbremedy-up to whoever runs lbremedy."))
	default:
		return well(say.F("People approve by Approvals in the cluster, and Kubernetes proves who they are."))
	}
}

// runs checks what the health endpoints of a running lbremedy say: it reaches NATS, reads the Events of the cluster, can use its policy,
// and has read its state from NATS.
func (f *flight) runs(ctx context.Context) Check {
	do := say.F("Read its log: kubectl logs deployment/lbremedy-up. One that has just started may need a minute.")
	_, err := f.health(ctx, "readyz")
	var metrics string
	if err == nil {
		metrics, err = f.health(ctx, "metrics")
	}
	if err != nil {
		return result(Problem, sentence(err), do)
	}
	for _, m := range []string{"lbremedy_exporter_ready", "lbremedy_state_known"} {
		is := false
		for line := range strings.Lines(metrics) {
			is = is || strings.HasPrefix(line, m+"{") && strings.HasSuffix(line, " 1\n")
		}
		if !is {
			return result(Problem, say.F("The metric %s is not 1.", m), do)
		}
	}
	return well(say.F("The program at %s reaches NATS, reads the Events of the cluster, and can use its policy.", f.running))
}

// health returns what an endpoint of the running lbremedy answers.
func (f *flight) health(ctx context.Context, endpoint string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	at := strings.TrimSuffix(f.running, "/") + "/" + endpoint
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err == nil && res.StatusCode != http.StatusOK {
		err = say.Errorf("the address %s answers %d: %s", at, res.StatusCode, string(text[:min(len(text), 1000)]))
	}
	return string(text), err
}

// tryKey is the annotation by which fixes trigger a resync, which lbremedy's admission policy lets it change.
const tryKey = ccm.Resync

func (f *flight) admission(ctx context.Context) Check {
	if err := f.snap.Err(doctor.Services); err != nil {
		return result(Unknown, sentence(err), say.F("Allow to list Services."))
	}
	i := slices.IndexFunc(f.snap.Services, func(s corev1.Service) bool {
		return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.DeletionTimestamp == nil
	})
	if i < 0 {
		return well(say.F("There is no LoadBalancer Service yet on which a write could be tried."))
	}
	svc := &f.snap.Services[i]
	of := svc.Namespace + "/" + svc.Name
	value := "dry-run"
	try := func(version string) error {
		patch := kube.ServicePatch{Annotations: map[string]*string{tryKey: &value}}
		_, err := f.env.Clients.KubeWriter.Dry().PatchService(ctx, svc.Namespace, svc.Name, version, patch)
		return err
	}
	err := try(svc.ResourceVersion)
	if errors.Is(err, kube.ErrConflict) { // changed since it was listed
		now, gone := f.env.Kube.Service(ctx, svc.Namespace, svc.Name)
		if err = gone; gone == nil {
			err = try(now.ResourceVersion)
		}
	}
	if err != nil {
		return result(Problem, say.F("The API server refuses a dry run of an annotation of %s: %s", of, sentence(err)),
			say.F("Allow to patch Services, or change the admission policy or webhook that refuses it."))
	}
	return well(say.F("The API server accepts an annotation of %s, in a dry run.", of))
}
