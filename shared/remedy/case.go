package remedy

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Case is one failed Service as a remedy sees it. What can be reached from it
// only reads: what writes is a type of its own, Writers, that only steps get.
type Case struct {
	ccm.View               // of a case about the cluster the Service is an empty one
	ID       string        // first 8 digits of the UID, "-", time of the first event
	Attempt  int           // number that an attempt to write has, or would have; from 1
	Event    event.Failure // what was reported: a hint, never a value to write
	Policy   Policy
	Now      time.Time // when the run began; classes read no clock

	Remedy *Remedy         // whose case it is
	Crowd  *Crowd          // whose Peers it shares; nil: it reads them alone
	Taken  map[string]bool // keys of claims that had no place left: see Full
	Idle   time.Duration   // for how long the case has waited with nothing to write
}

// Writers are what steps write with.
type Writers struct {
	Cloud *cloud.Writer
	Kube  *kube.Writer
}

// Full reports whether a claim with this key had no place left in this run, so
// that the class chooses something else.
func (c *Case) Full(key string) bool { return c.Taken[key] }

// Mark returns the value of the resync annotation that this attempt writes: it
// triggers a sync and tells our own writes from others'.
func (c *Case) Mark() string { return fmt.Sprintf("%s.%d", c.ID, c.Attempt) }

// Written reports whether the Service carries the mark of this attempt: what it
// shows now came after our write.
func (c *Case) Written() bool { return c.Service.Annotations[ccm.Resync] == c.Mark() }

// Over returns why there is nothing to do for a Service; empty if there is.
func (c *Case) Over(svc *corev1.Service) say.Text {
	leaves := ccm.Leaving(svc)
	switch {
	case string(svc.UID) != c.Event.Service.UID:
		return say.F("The Service was deleted. Another one has its name now.")
	case len(leaves) > 0 && ccm.Released(svc):
		return say.F("The Service %s, and the controller has cleaned up.", leaves)
	case len(leaves) > 0 && !c.Remedy.Deleting:
		return say.F("The Service %s, so there is nothing to fix.", leaves)
	}
	return nil
}
