package remedy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lbremedy/lbremedy/shared/grant"
)

// A Version is a release of the controller, such as v2.12.1. The zero value says
// that it is not known.
type Version struct{ Major, Minor, Patch int }

// String returns the version as its release is called.
func (v Version) String() string { return fmt.Sprintf("v%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Before reports whether v is an older release than o.
func (v Version) Before(o Version) bool {
	return slices.Compare([]int{v.Major, v.Minor, v.Patch}, []int{o.Major, o.Minor, o.Patch}) < 0
}

// ParseVersion reads "v2.12.1", also with a suffix: "v1.9.3.380-gd6d0962-aliyun".
// It reports false for what is no version.
func ParseVersion(s string) (Version, bool) {
	parts := strings.SplitN(strings.TrimPrefix(s, "v"), ".", 3)
	if len(parts) < 3 || !strings.HasPrefix(s, "v") {
		return Version{}, false
	}
	last := strings.FieldsFunc(parts[2], func(r rune) bool { return r < '0' || r > '9' })
	if len(last) == 0 {
		return Version{}, false
	}
	var v Version
	var errs [3]error
	v.Major, errs[0] = strconv.Atoi(parts[0])
	v.Minor, errs[1] = strconv.Atoi(parts[1])
	v.Patch, errs[2] = strconv.Atoi(last[0])
	if errs != [3]error{} {
		return Version{}, false
	}
	return v, true
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
	Version   Version // zero: not known
	AccessKey bool    // signs with an access key and not with the masters' role
}

// daemonSet is the controller's name in a dedicated cluster, and its add-on's name.
const daemonSet = "cloud-controller-manager"

// Controller reads the controller's version: from its DaemonSet's image, which is
// what runs, else from the list of add-ons.
func (c *Case) Controller(ctx context.Context) (Controller, error) {
	sets, err := c.Kube.DaemonSets(ctx, "kube-system")
	if err != nil {
		return Controller{}, fmt.Errorf("list DaemonSets of kube-system: %w", err)
	}
	var ctl Controller
	for _, ds := range sets {
		if ds.Name != daemonSet {
			continue
		}
		for _, container := range ds.Spec.Template.Spec.Containers {
			if v, ok := imageVersion(container.Image); ok {
				ctl.Version = v
			}
			for _, env := range container.Env {
				ctl.AccessKey = ctl.AccessKey || env.Name == "ACCESS_KEY_ID"
			}
		}
	}
	if ctl.Version != (Version{}) {
		return ctl, nil
	}
	addons, err := c.Cloud.CS.Addons(ctx)
	if err != nil {
		return Controller{}, fmt.Errorf("list add-ons: %w", err)
	}
	ctl.Version, _ = ParseVersion(addons[daemonSet])
	return ctl, nil
}
