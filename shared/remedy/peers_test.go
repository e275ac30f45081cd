package remedy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/ccm"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func many(n int) *roll {
	all := []*history{{Peer: Peer{Namespace: "shop", Name: "other", Failed: 1, Fails: true}, uid: "other"}}
	for i := range n {
		all = append(all, &history{Peer: Peer{Namespace: "shop", Name: fmt.Sprintf("s%03d", i), Failed: 2, Fails: true, Same: true}, uid: fmt.Sprint(i)})
	}
	return newRoll(all)
}

// A sentence names a few, the own Service first, and one without others says so.
func TestTogether(t *testing.T) {
	const alone = "According to the Events, no other Service of the cluster has this failure."
	for _, uid := range []string{"0", "unseen"} {
		n := 0
		if uid == "0" {
			n = 1
		}
		if got := Together(many(n).seenBy("shop", "s000", uid)).String(); got != alone {
			t.Errorf("%s: got %q, want %q", uid, got, alone)
		}
	}
	for uid, want := range map[string]string{
		"7":      "200 Services of the cluster have this failure: shop/s007, shop/s000, shop/s001, shop/s002, shop/s003 and 195 more.",
		"unseen": "201 Services of the cluster have this failure: shop/new, shop/s000, shop/s001, shop/s002, shop/s003 and 196 more.",
		"other":  "201 Services of the cluster have this failure: shop/other, shop/s000, shop/s001, shop/s002, shop/s003 and 196 more.",
	} {
		if got := Together(many(200).seenBy("shop", "new", uid)).String(); !strings.HasSuffix(got, want) {
			t.Errorf("%s: got %q, want %q", uid, got, want)
		}
	}
	if others, n := many(200).seenBy("shop", "other", "other").Others(5); n != 0 || len(others) != 0 {
		t.Errorf("the Service in hand is one of %d others", n)
	}
}

// A case costs no more among many peers, all of which ask if the cause is account-wide.
func TestPeersCost(t *testing.T) {
	cost := func(n int) float64 {
		c := &Case{View: ccm.View{Service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s007", UID: "7"}}}}
		look := many(n)
		return testing.AllocsPerRun(100, func() { Together(look.seenBy(c.Service.Namespace, c.Service.Name, string(c.Service.UID))) })
	}
	if few, lots := cost(20), cost(20_000); lots > few+5 {
		t.Errorf("one of 20,000 allocates %.0f times, one of 20 %.0f times", lots, few)
	}
}
