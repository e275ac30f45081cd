package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
)

// errNoVersion says that the controller was found and does not say which it is.
var errNoVersion = errors.New("the version of the controller can't be told, neither from its DaemonSet nor from the list of add-ons")

// versionOf returns the release of the controller. The error says why it is not known.
func versionOf(s *doctor.Snapshot) (ccm.Version, error) {
	if err := s.Err(doctor.Controller); err != nil {
		return ccm.Version{}, err
	}
	if s.Controller.Version == (ccm.Version{}) {
		return ccm.Version{}, errNoVersion
	}
	return s.Controller.Version, nil
}

// errSome says that a part is known of some load balancers alone.
var errSome = errors.New("of some load balancers it could not be read")

// name returns what a Service is called in commands.
func name(svc *corev1.Service) string { return svc.Namespace + "/" + svc.Name }

// about names a Service as what a finding is about.
func about(svc *corev1.Service) doctor.About { return doctor.OfService(svc) }

// sorted returns the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// set returns the command by which a person sets an annotation to a VALUE.
func set(svc *corev1.Service, short string) string { return ccm.SetCommand(svc, short, "VALUE") }

// remove returns the command by which a person removes an annotation by its key.
func remove(svc *corev1.Service, key string) string {
	return fmt.Sprintf("kubectl -n %s annotate service %s %s", svc.Namespace, svc.Name, ccm.Shell(key+"-"))
}

// percent returns how much of the whole a part is; 0 if there is no whole.
func percent(part, whole float64) int {
	if whole <= 0 {
		return 0
	}
	return int(part * 100 / whole)
}

// longestEvidence is how much of a value stands in the evidence of a finding.
const longestEvidence = 200

// cut returns a value as it is, and a long one cut.
func cut(value string) string {
	if len(value) <= longestEvidence {
		return value
	}
	return strings.ToValidUTF8(value[:longestEvidence], "") + "…"
}
