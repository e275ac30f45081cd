package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/status"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// The strip has a line for each reason why plans aren't applied or failures aren't seen.
func TestStrip(t *testing.T) {
	t.Parallel()
	var c clusterNow
	if got := c.alarms(0); len(got) > 0 {
		t.Errorf("of nothing: %+v", got)
	}
	c.Cluster, c.Exporter = "c1", &status.Exporter{}
	c.Pauses, c.Breakers = []control.Pause{{By: "ann"}}, []control.Breaker{{Class: "quota"}, {Class: control.AnyClass}}
	c.Places.Free = map[string]time.Time{"": time.Now(), "tag-missing": time.Now()}
	list := c.alarms(2)
	wants := []struct{ text, command, link string }{
		{"The exporter is silent: failures are not seen.", "", ""}, {"Writes are paused. ", "lbremedy resume --cluster c1", ""},
		{"quota", "lbremedy breaker close quota --cluster c1", "/classes/quota"}, {"", "lbremedy resume --cluster c1", ""},
		{"The budget of the cluster is spent until ", "", "/policy?cluster=c1"}, {"The budget of the class tag-missing is spent until ", "", "/policy?cluster=c1"},
		{"Failed and still open: 2 cases.", "", "/cases?result=failed"},
	}
	if len(list) != len(wants) {
		t.Fatalf("%d alarms, want %d: %+v", len(list), len(wants), list)
	}
	for i, want := range wants {
		if got := list[i]; !strings.Contains(got.Text.String(), want.text) || got.Command != want.command || got.Link != want.link {
			t.Errorf("alarm %d is %q with %q and %q, want %+v", i, got.Text, got.Command, got.Link, want)
		}
	}
}

// A Service waits for its load balancer: its open case explains that better than the finding.
func TestGroups(t *testing.T) {
	t.Parallel()
	of := func(check, service string) doctor.Finding {
		return doctor.Finding{Check: check, About: doctor.About{Kind: doctor.Service, Namespace: "shop", Name: service}, Text: say.Literal(check)}
	}
	web := &summary{}
	got := groupsOf([]doctor.Finding{of("lb-gone", "web"), of(pending, "api"), of(pending, "web"), of("drift", "web")}, map[string]*summary{"shop/web": web})
	said := ""
	for _, g := range got {
		said += g.About.String()
		for _, f := range g.Findings {
			said += " " + f.Check
		}
		said += "; "
	}
	if said != "shop/web lb-gone drift; shop/api pending; " || got[0].Case != web || got[1].Case != nil {
		t.Errorf("it is %q", said)
	}
}

// Browsers send the host in lower case and without the default port of the scheme.
func TestHosts(t *testing.T) {
	t.Parallel()
	for address, hosts := range map[string]map[string]int{
		"https://LB.example.com:443": {"lb.example.com": http.StatusOK, "lb.example.com:443": http.StatusOK, "lb.example.com:80": http.StatusMisdirectedRequest},
		"https://lb.example.com":     {"lb.example.com": http.StatusOK, "LB.example.com:443": http.StatusOK, "evil.example": http.StatusMisdirectedRequest},
		"https://lb.example.com:80":  {"lb.example.com:80": http.StatusOK, "lb.example.com": http.StatusMisdirectedRequest},
		"http://127.0.0.1:80":        {"127.0.0.1": http.StatusOK, "localhost": http.StatusOK, "localhost:8383": http.StatusMisdirectedRequest},
		"http://127.0.0.1":           {"127.0.0.1": http.StatusOK, "localhost": http.StatusOK},
		"http://[::1]:8383":          {"[::1]:8383": http.StatusOK, "localhost:8383": http.StatusOK, "localhost": http.StatusMisdirectedRequest},
	} {
		at, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		h := (&server{url: at}).guarded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for host, want := range hosts {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			r.Host = host
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%s answers %s with %d, want %d", address, host, w.Code, want)
			}
		}
	}
}
