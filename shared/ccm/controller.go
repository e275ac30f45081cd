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

// A Version is a release of the controller, such as v2.12.1; zero if unknown. Releases before v2, such as v1.9.3.380, differ only in Build.
type Version struct {
	Major int `json:"major,omitzero"`
	Minor int `json:"minor,omitzero"`
	Patch int `json:"patch,omitzero"`
	Build int `json:"build,omitzero"`
}

// String returns the name of the release.
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

// release matches the beginning of a version. A suffix does not count: the last 1 of "v2.12.1-aliyun.1" is not a build.
var release = regex.New(`^v(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?`)

// ParseVersion reads a version such as "v2.12.1", or with a suffix "v1.9.3.380-gd6d0962-aliyun", or reports false.
func ParseVersion(s string) (Version, bool) {
	parts := release().FindStringSubmatch(s)
	if parts == nil {
		return Version{}, false
	}
	number := func(i int) int {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return 0 // without a build
		}
		return n
	}
	return Version{number(1), number(2), number(3), number(4)}, true
}

func imageVersion(image string) (Version, bool) {
	image, _, _ = strings.Cut(image, "@")
	i := strings.LastIndex(image, ":")
	return ParseVersion(image[i+1:])
}

// ControllerReads is what Controller reads; a class that calls it declares it.
var ControllerReads = []grant.Grant{grant.ListDaemonSets, grant.DescribeClusterAddons}

// A Controller is what is known of the cluster's controller.
type Controller struct {
	DaemonSet bool    // the cluster has its DaemonSet
	Version   Version // zero if unknown
	AccessKey bool    // it signs with an access key, not with the role of the control plane nodes

	Connects []string // environment variables that change where it connects to
}

// connecting lists the variables of Go's default transport and the controller's own (pkg/provider/alibaba/base/clientMgr.go, v2.14.0).
var connecting = []string{
	"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy",
	"SLB_ENDPOINT", "VPC_ENDPOINT", "ECS_ENDPOINT", "NLB_ENDPOINT", "METADATA_ENDPOINT", "ALICLOUD_CLIENT_SCHEME",
}

// DaemonSet is the controller's name in a dedicated cluster, and that of its add-on.
const DaemonSet = "cloud-controller-manager"

// Controller reads the controller's version from the image of its DaemonSet, which is what runs, or else from the list of add-ons.
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

// Deployed reads the controller's DaemonSet. It needs ListDaemonSets.
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

var elsewhere = say.F("The cluster has no DaemonSet %s: Alibaba Cloud runs the controller in the control plane, or it has another name here.", DaemonSet)

// Network says where the controller runs and which variables change where it connects to. It leaves out values: a proxy's can contain a password.
func (ctl Controller) Network() say.Text {
	switch {
	case !ctl.DaemonSet:
		return elsewhere
	case len(ctl.Connects) == 0:
		return say.F("The controller runs as the DaemonSet %s; its environment names no proxy and no endpoint.", DaemonSet)
	}
	return say.F("The controller runs as the DaemonSet %s; its environment sets %s.", DaemonSet, strings.Join(ctl.Connects, ", "))
}

// Retry is the longest wait of the controller before it retries a failed sync: it doubles 5 s up to this (clbv1/service_controller.go).
const Retry = 5 * time.Minute

// Retries says when the controller retries a failed sync.
func Retries() say.Text {
	return say.F("The controller retries within %.0f minutes.", Retry.Minutes())
}

// ThenRetries says when the controller retries after something else is done.
func ThenRetries() say.Text {
	return say.F("The controller then retries within %.0f minutes.", Retry.Minutes())
}

// NoVersion says that Controller did not find the version.
func NoVersion() say.Text {
	return say.F("The version of the controller could not be determined, neither from its DaemonSet nor from the list of add-ons.")
}

// NextTry is how long to wait for the controller to retry what can now succeed.
const NextTry = time.Minute
