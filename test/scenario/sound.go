package scenario

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// barred returns an error for an undo after which a Service would request what the CLB created by the fix can never be.
func (w *world) barred(t *testing.T, r *remedy.Remedy, rec event.Record) error {
	t.Helper()
	if !slices.ContainsFunc(rec.Changes, func(c event.Change) bool { return c.What == "load balancer" && c.Balancer == "" && !c.Unknown }) {
		return nil // one existed before
	}
	planned, err := r.Planned(w.env.Decode, rec)
	if err != nil {
		return err
	}
	var back []remedy.Step
	for _, s := range slices.Backward(planned) {
		if b, ok := s.Undo(); ok {
			back = append(back, b)
		}
	}
	env, hands := w.undoEnv(t)
	svc, err := env.Kube.Service(t.Context(), w.svc.Namespace, w.svc.Name)
	if errors.Is(err, kube.ErrNotFound) {
		return nil // it was to be deleted
	}
	if err != nil {
		return err
	}
	why, err := (&remedy.Case{View: ccm.View{Cluster: clusterID, Service: svc, Cloud: hands.Cloud, Kube: hands.Kube}}).Bars(t.Context(), back)
	if err != nil || why == "" {
		return err
	}
	if _, err := engine.LookUndo(t.Context(), env, r, []event.Record{rec}); !errors.Is(err, engine.ErrNoUndo) {
		return fmt.Errorf("its undo is not refused (%v), although %s", err, why)
	}
	return nil
}

const unsettled = 5 * time.Minute

// sound returns the doctor's critical findings about the scenario's Service: a fixed Service has none.
func (w *world) sound(t *testing.T) error {
	t.Helper()
	if _, err := w.kube.Client().CoreV1().Services(w.svc.Namespace).Get(t.Context(), w.svc.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return nil // it was to be deleted
	}
	key := w.cloud.Admin()
	account, _, err := cloud.New(cloud.Config{
		Region: w.cloud.Region(), ClusterID: clusterID, Endpoint: w.cloud.Addr(), Scheme: "HTTP",
		Credentials: cloud.Static(cloud.Key{ID: key.AccessKeyID, Secret: key.Secret, Token: key.Token}),
	})
	if err != nil {
		return err
	}
	defer account.Close()
	all, err := kube.New(w.kube.Config)
	if err != nil {
		return err
	}
	_, result, err := doctor.Run(t.Context(), doctor.Source{
		Cluster: clusterID, Kube: all, Cloud: account, Now: w.now().Add(unsettled), Only: w.svc.Namespace + "/" + w.svc.Name,
	}, checks.Checks())
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range result.Read {
		if r.Error != "" {
			errs = append(errs, fmt.Errorf("the doctor cannot read the %s: %s", r.Part, r.Error))
		}
	}
	for _, f := range result.Findings {
		if f.Severity == doctor.Critical && f.About == doctor.OfService(w.svc) {
			errs = append(errs, fmt.Errorf("it is fixed, and the doctor's check %s finds: %s", f.Check, f.Text))
		}
	}
	return errors.Join(errs...)
}
