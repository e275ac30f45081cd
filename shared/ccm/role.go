package ccm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// RoleReads is what ControllerRole reads; a class that calls it declares it.
var RoleReads = []grant.Grant{
	grant.ListDaemonSets, grant.GetServiceAccounts, grant.ListPods, grant.GetClusterAddon,
	grant.DescribeClusterResources, grant.ListPoliciesForRole, grant.GetPolicy,
}

// A Pod of the controller gets its own RAM role (RRSA) from the add-on ack-pod-identity-webhook, which turns the annotation of its
// ServiceAccount into an environment variable that the SDK reads
// (https://www.alibabacloud.com/help/en/cs/user-guide/ack-pod-identity-webhook).
const (
	roleAnnotation = "pod-identity.alibabacloud.com/role-name"
	roleVariable   = "ALIBABA_CLOUD_ROLE_ARN"
)

// FirstRRSA returns the first release that can sign with the RAM role of its Pod
// (https://github.com/kubernetes/cloud-provider-alibaba-cloud/releases/tag/v2.15.0).
func FirstRRSA() Version { return Version{2, 15, 0, 0} }

// A Role is a RAM role with what its policies say.
type Role struct {
	Name     string   // empty if the cluster names none, or if it is unknown (see Doubt)
	By       say.Text // what names it, as a clause; empty: the cluster, as the role of its control plane nodes
	Policies []cloud.Policy
	Rules    []Statement // of all its policies

	unsure say.Text // why it is unknown which role it is
}

// Doubt returns why it is unknown whether this release signs with the role, as a clause, or nothing. With a doubt, a write may be for the wrong role.
func (r Role) Doubt(release Version) say.Text {
	if len(r.unsure) == 0 && len(r.By) > 0 && release != (Version{}) && release.Before(FirstRRSA()) {
		return say.F("%s, but CCM %s cannot sign with a role of its Pod, which takes %s or newer", r.By, release, FirstRRSA())
	}
	return r.unsure
}

type naming struct {
	role string // empty if something names a role that cannot be determined
	by   say.Text
}

// ControllerRole reads the RAM role of a dedicated cluster's controller, with its policies: the one that its ServiceAccount, the environment
// of its Pods or the configuration of its add-on names, or else that of the control plane nodes. If these contradict each other, or one is
// unclear, the role has a Doubt and no name.
func (c *View) ControllerRole(ctx context.Context) (Role, error) {
	named, err := c.namings(ctx)
	if err != nil {
		return Role{}, err
	}
	switch one, unsure := oneOf(named); {
	case len(unsure) > 0:
		return Role{unsure: unsure}, nil
	case one.role != "":
		role, err := c.RoleNamed(ctx, one.role)
		role.By = one.by
		return role, err
	}
	name, err := c.Cloud.CS.MasterRole(ctx)
	if errors.Is(err, cloud.ErrNotFound) {
		return Role{}, nil
	}
	if err != nil {
		return Role{}, fmt.Errorf("read the masters' RAM role: %w", err)
	}
	return c.RoleNamed(ctx, name)
}

// oneOf returns the role that all name, or why it is unknown; both are empty if nothing names one.
func oneOf(named []naming) (one naming, unsure say.Text) {
	for _, n := range named {
		switch {
		case n.role == "":
			return naming{}, n.by
		case n.role != named[0].role:
			return naming{}, say.F("%s, but %s", named[0].by, n.by)
		}
		one = named[0]
	}
	return one, nil
}

// namings returns everything that names a RAM role for the controller, by weight: either of two that contradict may be right.
func (c *View) namings(ctx context.Context) ([]naming, error) {
	// Defaults in case the DaemonSet is missing.
	account, labels := DaemonSet, map[string]string{"app": DaemonSet}
	var named []naming
	sets, err := c.Kube.DaemonSets(ctx, "kube-system")
	if err != nil {
		return nil, fmt.Errorf("list DaemonSets of kube-system: %w", err)
	}
	for _, ds := range sets {
		if ds.Name == DaemonSet {
			account, labels = ds.Spec.Template.Spec.ServiceAccountName, ds.Spec.Template.Labels
			named = append(named, ofEnvironment(ds.Spec.Template.Spec, say.F("the DaemonSet %s", DaemonSet))...)
		}
	}
	if account == "" {
		account = "default"
	}
	ofAccount, err := c.ofAccount(ctx, account)
	if err != nil {
		return nil, err
	}
	pods, err := c.Kube.Pods(ctx, "kube-system", labels)
	if err != nil {
		return nil, fmt.Errorf("list the controller's Pods: %w", err)
	}
	ofPods, without := ofPods(pods)
	named = slices.Concat(ofAccount, named, ofPods)
	if len(named) > 0 && without != "" {
		// A Pod keeps the environment with which it started.
		return []naming{{by: say.F("%s, but the Pod %s has no %s in its environment", named[0].by, without, roleVariable)}}, nil
	}
	config, err := c.Cloud.CS.AddonConfig(ctx, DaemonSet)
	if err != nil && !errors.Is(err, cloud.ErrNotFound) {
		return nil, fmt.Errorf("read the configuration of the add-on %s: %w", DaemonSet, err)
	}
	return append(named, ofConfig(config)...), nil
}

func (c *View) ofAccount(ctx context.Context, name string) ([]naming, error) {
	account, err := c.Kube.ServiceAccount(ctx, "kube-system", name)
	if errors.Is(err, kube.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the controller's ServiceAccount: %w", err)
	}
	role := account.Annotations[roleAnnotation]
	if role == "" {
		return nil, nil
	}
	return []naming{namingOf(role, say.F("the ServiceAccount %s", "kube-system/"+name))}, nil
}

func ofPods(pods []corev1.Pod) (named []naming, without string) {
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		found := ofEnvironment(pod.Spec, say.F("the Pod %s", pod.Name))
		if len(found) == 0 {
			without = pod.Name
		}
		named = append(named, found...)
	}
	return named, without
}

func ofEnvironment(spec corev1.PodSpec, of say.Text) (named []naming) {
	for _, container := range spec.Containers {
		i := slices.IndexFunc(container.Env, func(env corev1.EnvVar) bool { return env.Name == roleVariable })
		switch {
		case i >= 0 && container.Env[i].ValueFrom != nil:
			named = append(named, naming{by: say.F("%s takes %s from elsewhere, which is not read", of, roleVariable)})
		case i >= 0 && container.Env[i].Value != "":
			named = append(named, namingOf(container.Env[i].Value, of))
		case i < 0 && len(container.EnvFrom) > 0:
			named = append(named, naming{by: say.F("%s takes its environment from elsewhere, which is not read, and %s may be in it", of, roleVariable)})
		}
	}
	return named
}

var (
	roleName = regex.New(`^[A-Za-z0-9._-]{1,64}$`)
	roleARN  = regex.New(`^acs:ram::\d+:role/([A-Za-z0-9._-]{1,64})$`)
)

func namingOf(value string, of say.Text) naming {
	role := value
	if m := roleARN().FindStringSubmatch(value); m != nil {
		role = m[1]
	}
	if !roleName().MatchString(role) {
		return naming{by: say.F("%s names %s, which is not a RAM role", of, Quote(value))}
	}
	return naming{role, say.F("%s names the RAM role %s", of, role)}
}

// ofConfig returns the roles that the add-on's configuration names. The keys are not documented, so every ARN of a role counts, and every
// key that ends with RAM role, role name or role ARN. If RRSA is on without such a key, the role cannot be determined.
func ofConfig(config string) []naming {
	if strings.TrimSpace(config) == "" {
		return nil
	}
	of := say.F("the configuration of the add-on %s", DaemonSet)
	var all any
	if err := json.Unmarshal([]byte(config), &all); err != nil {
		return []naming{{by: say.F("%s cannot be read: it is not JSON", of)}}
	}
	s := rrsaSettings{of: of}
	s.search("", all)
	if len(s.named) == 0 && s.on {
		return []naming{{by: say.F("%s switches RRSA on and names no RAM role", of)}}
	}
	return s.named
}

type rrsaSettings struct {
	of    say.Text
	named []naming
	on    bool // RRSA is switched on
}

// search searches a value below a path of keys, in lower case and without punctuation.
func (s *rrsaSettings) search(path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			s.search(path+"/"+plainKey(key), v[key])
		}
	case []any:
		for _, one := range v {
			s.search(path, one)
		}
	default:
		text := strings.TrimSpace(fmt.Sprint(v))
		if v == nil || slices.Contains([]string{"", "false", "0", "off", "no"}, strings.ToLower(text)) {
			return
		}
		switch {
		case roleARN().MatchString(text), strings.HasSuffix(path, "ramrole"), strings.HasSuffix(path, "rolename"), strings.HasSuffix(path, "rolearn"):
			s.named = append(s.named, namingOf(text, s.of))
		case strings.Contains(path, "rrsa"):
			s.on = true
		}
	}
}

func plainKey(key string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(key))
}
