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

// A Case is one failed Service as a remedy sees it, for reading: only steps get Writers.
type Case struct {
	ccm.View               // the Service is empty in a case about the cluster
	ID       string        // first 8 digits of the UID, "-", time of the first event
	Attempt  int           // number of the present or next attempt to write, from 1
	Event    event.Failure // the reported failure: a hint, never a value to write
	Policy   Policy
	Now      time.Time // when the run began; classes read no clock

	Remedy    *Remedy         // the remedy of the case
	PeerCache *PeerCache      // shares its Peers; nil: it reads them separately
	Taken     map[string]bool // keys of claims without a place left; see Full
	Idle      time.Duration   // how long the case has waited without a write
}

// Writers are what steps write with.
type Writers struct {
	Cloud *cloud.Writer
	Kube  *kube.Writer
}

// Full reports whether a claim with this key had no place left in this run.
func (c *Case) Full(key string) bool { return c.Taken[key] }

// Mark returns the value of the resync annotation that this attempt writes. It triggers a sync and shows that the write is ours.
func (c *Case) Mark() string { return fmt.Sprintf("%s.%d", c.ID, c.Attempt) }

// Written reports whether the Service has this attempt's mark: a state after our write.
func (c *Case) Written() bool { return c.Service.Annotations[ccm.Resync] == c.Mark() }

// Over returns why the case of a Service ends without any action; empty if it goes on.
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
