package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/operator"
)

func TestAlarms(t *testing.T) {
	c, s := operator.Embed(t)
	failed := operator.Lately()[3]
	failed.Result = event.Failed
	if err := operator.Seed(t.Context(), s, failed); err != nil {
		t.Fatal(err)
	}
	x := start(t, c, "--alias", "c1=production")
	x.until("/", "production")
	x.until("/", "Failed and still open: 1 case.")
	x.until("/questions", "pay/api") // a failed case is open, and waits for a person
	if page := x.get("/", http.StatusOK); !strings.Contains(page, `title="c1"`) ||
		strings.Contains(page, "Writes are paused") || strings.Contains(page, "is spent") {
		t.Errorf("before anything has stopped: %s", page)
	}
	if got := c.Run(t.Context(), "pause", "--why", "CHG-7", "--cluster", "c1"); got.Code != 0 {
		t.Fatalf("pause: %+v", got)
	}
	x.until("/", "Writes are paused.")
	x.until("/", `data-copy="lbremedy resume --cluster c1"`)
	most := (remedy.Budgets{}).OfClass()
	for i := range most {
		if _, err := control.Spend(t.Context(), s, false, "c1", "tag-missing", operator.UID(i), most, control.MostServices); err != nil {
			t.Fatal(err)
		}
	}
	x.until("/", "The budget of the class tag-missing is spent until <time data-clock")
	page := x.get("/", http.StatusOK)
	for _, want := range []string{"CHG-7", "To write earlier, raise the budget in the policy file."} {
		if !strings.Contains(page, want) {
			t.Errorf("it lacks %q: %s", want, page)
		}
	}
	if strings.Index(page, "Writes are paused.") > strings.Index(page, "Waits for a person") {
		t.Error("what waits comes before what has stopped")
	}
	if got := c.Run(t.Context(), "console", "--alias", "no id=x"); got.Code != 2 || !strings.Contains(got.Err, "--alias") {
		t.Errorf("an alias of nothing: %+v", got)
	}
}

func TestNoKind(t *testing.T) {
	sc := operator.NewTestbedOn(t, cluster.Alone(t))
	u := sc.Up(t)
	asked := sc.Asks(t, u, "{needs: 1}")
	x := start(t, sc.As(t, "ann", []rbacv1.PolicyRule{looks, answers}))
	x.until("/questions", "does not have the kind Approval")
	one := fmt.Sprintf("/cases/%s/%s/%s/%s", asked.Cluster, asked.Service.UID, asked.Class, asked.Case)
	for _, path := range []string{"/", "/questions", one} {
		if page := x.get(path, http.StatusOK); strings.Contains(page, `value="approve"`) || !strings.Contains(page, "lbremedy approve "+asked.Case) {
			t.Errorf("%s offers it: %s", path, page)
		}
	}
	u.End(t)
}
