package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

var errNoVersion = say.Errorf("the version of the controller could not be determined, neither from its DaemonSet nor from the list of add-ons")

func versionOf(s *doctor.Snapshot) (ccm.Version, error) {
	if err := s.Err(doctor.Controller); err != nil {
		return ccm.Version{}, err
	}
	if s.Controller.Version == (ccm.Version{}) {
		return ccm.Version{}, errNoVersion
	}
	return s.Controller.Version, nil
}

var errSome = say.Errorf("it could not be read for some load balancers")

func name(svc *corev1.Service) string { return svc.Namespace + "/" + svc.Name }

func about(svc *corev1.Service) doctor.About { return doctor.OfService(svc) }

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func set(svc *corev1.Service, short string) say.Text { return setTo(svc, short, "VALUE") }

// setTo returns how a person sets an annotation by its short name: a command, or an edit of a manifest.
func setTo(svc *corev1.Service, short, value string) say.Text {
	if svc.UID != "" {
		return say.Literal(ccm.SetCommand(svc, short, value))
	}
	return written(svc, short, value)
}

// written returns how to set annotations in a manifest. pairs alternates short names and values.
func written(svc *corev1.Service, pairs ...string) say.Text {
	var lines []string
	for i := 0; i+1 < len(pairs); i += 2 {
		lines = append(lines, ccm.AnnotationKey(svc, pairs[i])+": "+strconv.Quote(pairs[i+1]))
	}
	return say.F("in the manifest, write %s under metadata.annotations", strings.Join(lines, ", "))
}

func drop(svc *corev1.Service, short string) say.Text {
	keys := slices.DeleteFunc([]string{ccm.Prefix + short, ccm.LegacyPrefix + short}, func(key string) bool {
		_, ok := svc.Annotations[key]
		return !ok
	})
	return remove(svc, keys...)
}

func remove(svc *corev1.Service, keys ...string) say.Text {
	if svc.UID == "" {
		return say.F("in the manifest, delete the line of %s under metadata.annotations", strings.Join(keys, ", "))
	}
	command := fmt.Sprintf("kubectl -n %s annotate service %s", svc.Namespace, svc.Name)
	for _, key := range keys {
		command += " " + ccm.Shell(key+"-")
	}
	return say.Literal(command)
}

func percent(part, whole float64) int {
	if whole <= 0 {
		return 0
	}
	return int(part * 100 / whole)
}

const longestEvidence = 200

func cut(value string) string {
	if len(value) <= longestEvidence {
		return value
	}
	return strings.ToValidUTF8(value[:longestEvidence], "") + "…"
}

// shown is how many clauses, commands or names a sentence lists.
const shown = 5
