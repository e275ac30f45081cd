package ccm

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Version is a release of the controller, such as v2.12.1. The zero value says
// that it is not known. Build is that of releases with four numbers, such as
// v1.9.3.380: those before v2 differ in it alone.
type Version struct {
	Major int `json:"major,omitzero"`
	Minor int `json:"minor,omitzero"`
	Patch int `json:"patch,omitzero"`
	Build int `json:"build,omitzero"`
}

// String returns the version as its release is called.
func (v Version) String() string {
	text := fmt.Sprintf("v%d.%d.%d", v.Major, v.Minor, v.Patch)
	if v.Build > 0 {
		text += fmt.Sprintf(".%d", v.Build)
	}
	return text
}

// Before reports whether v is an older release than o.
func (v Version) Before(o Version) bool {
	return slices.Compare([]int{v.Major, v.Minor, v.Patch, v.Build}, []int{o.Major, o.Minor, o.Patch, o.Build}) < 0
}

// release is what versions begin with. After a suffix nothing counts: the 1 of
// "v2.12.1-aliyun.1" is no build.
var release = regex.New(`^v(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?`)

// ParseVersion reads "v2.12.1", also with a suffix: "v1.9.3.380-gd6d0962-aliyun".
// It reports false for what is no version.
func ParseVersion(s string) (Version, bool) {
	parts := release().FindStringSubmatch(s)
	if parts == nil {
		return Version{}, false
	}
	number := func(i int) int {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return 0 // there is no build
		}
		return n
	}
	return Version{number(1), number(2), number(3), number(4)}, true
}

// imageVersion reads the version from the tag of a container image.
func imageVersion(image string) (Version, bool) {
	image, _, _ = strings.Cut(image, "@")
	i := strings.LastIndex(image, ":")
	return ParseVersion(image[i+1:])
}

// ControllerReads is what Controller reads. A class that calls it declares it.
var ControllerReads = []grant.Grant{grant.ListDaemonSets, grant.DescribeClusterAddons}

// A Controller is what could be found out about the cluster's controller.
type Controller struct {
	DaemonSet bool    // the cluster has its DaemonSet
	Version   Version // zero: not known
	AccessKey bool    // signs with an access key and not with the masters' role

	Connects []string // variables of its environment that change where it connects to
}

// connecting are the variables that change where the controller connects to: those of
// Go's default transport, and its own (pkg/provider/alibaba/base/clientMgr.go, v2.14.0).
var connecting = []string{
	"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy",
	"SLB_ENDPOINT", "VPC_ENDPOINT", "ECS_ENDPOINT", "NLB_ENDPOINT", "METADATA_ENDPOINT", "ALICLOUD_CLIENT_SCHEME",
}

// DaemonSet is the controller's name in a dedicated cluster, and its add-on's name.
const DaemonSet = "cloud-controller-manager"

// Controller reads the controller's version: from its DaemonSet's image, which is
// what runs, else from the list of add-ons.
func (c *View) Controller(ctx context.Context) (Controller, error) {
	ctl, err := c.Deployed(ctx)
	if err != nil || ctl.Version != (Version{}) {
		return ctl, err
	}
	addons, err := c.Cloud.CS.Addons(ctx)
	if err != nil {
		return Controller{}, fmt.Errorf("list add-ons: %w", err)
	}
	ctl.Version, _ = ParseVersion(addons[DaemonSet])
	return ctl, nil
}

// Deployed reads what the controller's DaemonSet says of it. It needs ListDaemonSets.
func (c *View) Deployed(ctx context.Context) (Controller, error) {
	sets, err := c.Kube.DaemonSets(ctx, "kube-system")
	if err != nil {
		return Controller{}, fmt.Errorf("list DaemonSets of kube-system: %w", err)
	}
	var ctl Controller
	for _, ds := range sets {
		if ds.Name != DaemonSet {
			continue
		}
		ctl.DaemonSet = true
		for _, container := range ds.Spec.Template.Spec.Containers {
			if v, ok := imageVersion(container.Image); ok {
				ctl.Version = v
			}
			for _, env := range container.Env {
				ctl.AccessKey = ctl.AccessKey || env.Name == "ACCESS_KEY_ID"
				if slices.Contains(connecting, env.Name) {
					ctl.Connects = append(ctl.Connects, env.Name)
				}
			}
		}
	}
	return ctl, nil
}

// Describe says where the controller runs and how it signs requests.
func (ctl Controller) Describe() say.Text {
	switch {
	case ctl.AccessKey:
		return say.F("The controller runs as the DaemonSet %s and signs with an access key from its environment.", DaemonSet)
	case ctl.DaemonSet:
		return say.F("The controller runs as the DaemonSet %s.", DaemonSet).
			And("Its environment has no access key, so it signs with one from its configuration or with the RAM role of its node.")
	}
	return elsewhere
}

// elsewhere says that the controller is not where it is in a dedicated cluster.
var elsewhere = say.F("The cluster has no DaemonSet %s: Alibaba Cloud runs the controller in the control plane, or it has another name here.", DaemonSet)

// Network says where the controller runs and what of its environment changes where it connects to. Values are
// left out: a proxy's can hold a password.
func (ctl Controller) Network() say.Text {
	switch {
	case !ctl.DaemonSet:
		return elsewhere
	case len(ctl.Connects) == 0:
		return say.F("The controller runs as the DaemonSet %s; its environment names no proxy and no endpoint.", DaemonSet)
	}
	return say.F("The controller runs as the DaemonSet %s; its environment sets %s.", DaemonSet, strings.Join(ctl.Connects, ", "))
}

// Retry is the longest that the controller waits before it tries a failed sync
// again: 5 s, doubled each time, at most this
// (github.com/kubernetes/cloud-provider-alibaba-cloud, pkg/controller/service/clbv1/service_controller.go).
const Retry = 5 * time.Minute

// Retries says when the controller tries a failed sync again.
func Retries() say.Text {
	return say.F("The controller retries within %.0f minutes.", Retry.Minutes())
}

// ThenRetries says the same of what follows once something else is done.
func ThenRetries() say.Text {
	return say.F("The controller then retries within %.0f minutes.", Retry.Minutes())
}

// NoVersion says that the version of the controller is not known, where Controller has read it.
func NoVersion() say.Text {
	return say.F("The version of the controller could not be determined, neither from its DaemonSet nor from the list of add-ons.")
}

// NextTry is how long to wait for the controller to try again what it can do now.
const NextTry = time.Minute
