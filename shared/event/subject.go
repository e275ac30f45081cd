package event

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// Kinds of errors, for errors.Is.
var (
	ErrInvalid  = errors.New("invalid event")   // the event's content is impossible; a retry won't help
	ErrTooLarge = errors.New("event too large") // even with its message cut; also an ErrInvalid
)

// Roots of the subjects, one for each stream that carries events.
const (
	failedRoot = "lbremedy.failed"
	caseRoot   = "lbremedy.case"
	keptRoot   = "lbremedy.snapshot"
)

const (
	FailedSubjects = failedRoot + ".>" // all failures
	CaseSubjects   = caseRoot + ".>"   // all of CASES
	KeptSubjects   = keptRoot + ".>"   // states of load balancers before a write
)

// FailedSubject returns the subject of one Service's failures of a class. The arguments must pass ValidCluster, ValidClass and ValidUID.
func FailedSubject(cluster, class, uid string) string {
	return failedRoot + "." + cluster + "." + class + "." + uid
}

// FailedOf returns the filter for the failures of a class in a cluster; "*" is any cluster.
func FailedOf(cluster, class string) string { return failedRoot + "." + cluster + "." + class + ".>" }

// ParseFailedSubject splits a subject of FailedSubject. It is an ErrInvalid for any other.
func ParseFailedSubject(subject string) (cluster, class, uid string, err error) {
	parts := strings.Split(subject, ".")
	if len(parts) != 5 || parts[0]+"."+parts[1] != failedRoot {
		return "", "", "", invalid("subject %q is not %s.<cluster>.<class>.<service uid>", clip(subject), failedRoot)
	}
	cluster, class, uid = parts[2], parts[3], parts[4]
	if err := cmp.Or(ValidCluster(cluster), ValidClass(class), ValidUID(uid)); err != nil {
		return "", "", "", fmt.Errorf("subject %q: %w", clip(subject), err)
	}
	return cluster, class, uid, nil
}

// CaseSubject returns the subject of one Service's records of a class. The arguments must pass ValidCluster, ValidUID and ValidClass.
func CaseSubject(cluster, uid, class string) string {
	return caseRoot + "." + cluster + "." + uid + "." + class
}

// DoctorPrefix begins the classes of the doctor's findings in CASES, before the check's ID.
const DoctorPrefix = "doctor-"

// DoctorLock begins the lock of scheduled runs, before the cluster's ID.
const DoctorLock = "doctor."

// DoctorKey returns the key that holds when the last scheduled run of a cluster ended well.
func DoctorKey(cluster string) string { return "doctor." + cluster }

// CaseFilter returns the filter for the records of one Service, over all classes.
func CaseFilter(cluster, uid string) string { return caseRoot + "." + cluster + "." + uid + ".>" }

// KeptSubject returns the subject of the states of one Service's load balancers before writes of a class. CaseFilter does not match
// it, so snapshots lock nobody out. The arguments must pass ValidCluster, ValidUID and ValidClass.
func KeptSubject(cluster, uid, class string) string {
	return keptRoot + "." + cluster + "." + uid + "." + class
}

// Forms of IDs, which are tokens of subjects.
var (
	clusterForm = regex.New(`^[0-9A-Za-z_-]{1,64}$`)
	classForm   = regex.New(`^[0-9a-z]([0-9a-z-]{0,62}[0-9a-z])?$`)
	uidForm     = regex.New(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)
)

func formed(id string, form func() *regexp.Regexp, none, wrong string) error {
	switch {
	case id == "":
		return invalid("%s", none)
	case !form().MatchString(id):
		return invalid(wrong, clip(id))
	}
	return nil
}

// ValidCluster reports, as an ErrInvalid, why an ID can't be a cluster's.
func ValidCluster(id string) error {
	return formed(id, clusterForm, "the cluster ID is empty", "cluster ID %q is not 1 to 64 letters, digits, hyphens and underscores")
}

// ValidClass reports, as an ErrInvalid, why an ID can't be a class's.
func ValidClass(id string) error {
	return formed(id, classForm, "the class is empty", "class %q is not 1 to 64 lower-case letters, digits and inner hyphens")
}

// ValidUID reports, as an ErrInvalid, why a text can't be a Service's UID. The API server accepts any text in an Event.
func ValidUID(uid string) error {
	return formed(uid, uidForm, "the Service has no UID", "service UID %q is not a UUID")
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

func clip(s string) string { return Clip(s, 80) }

// CountKey returns the key under which the exporter stores how many LoadBalancer Services a cluster has.
func CountKey(cluster string) string { return "services." + cluster }

// ProgressKey returns the key of the resource version up to which a cluster's events are stored.
func ProgressKey(cluster string) string { return "progress." + cluster }

// PageKey returns the key of what a cluster's exporter has met. Parts may be "*" in a filter.
func PageKey(cluster, exporter string) string { return "ledger." + cluster + "." + exporter }
