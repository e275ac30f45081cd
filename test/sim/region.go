package sim

import (
	"net/http"
	"regexp"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// endpoint is a host name of the cloud: the product, and the region unless it
// is the product's central one. Any other host is the one address for all.
var endpoint = regexp.MustCompile(`^([a-z]+)(?:-vpc)?(?:[.-]([a-z]{2}-[a-z0-9-]+))?\.aliyuncs\.com(?::\d+)?$`)

// regionID is what the ID of a region looks like.
var regionID = regexp.MustCompile(`^(ap|cn|eu|me|na|us)-[a-z0-9-]+$`)

// locate notes the region that a request is for: the one that it names, or
// else the one of the endpoint that it was sent to. An endpoint has the
// versions of its own product only.
func (in *incoming) locate(host string) {
	in.region = in.params["RegionId"]
	m := endpoint.FindStringSubmatch(host)
	if m == nil || in.product == nil {
		return
	}
	if in.region == "" {
		in.region = m[2]
	}
	product := m[1]
	if product == "business" { // the host of the billing product
		product = "bss"
	}
	if product != in.product.Name && in.bad == nil {
		in.bad = core.Fail(http.StatusNotFound, "InvalidVersion", "Specified parameter Version is not valid.")
	}
}

// emptyRegion returns another region of an account, where nothing is.
func emptyRegion(home *State, region string) *State {
	s, err := newState(&World{Region: region, AccountID: home.AccountID}, home.Now)
	if err != nil {
		panic("sim: an empty region that cannot be made: " + err.Error())
	}
	clear(s.VPCs)
	clear(s.VSwitches)
	clear(s.RouteTables)
	s.Cluster, s.Home = Cluster{}, ""
	return s
}

// there returns the state of the region that a request is for. Other regions
// than the World's are empty at first.
func (c *Cloud) there(in *incoming) (*State, *core.Failure) {
	home := c.state
	switch {
	case in.region == "" || in.region == home.Region || !in.product.Regional:
		return home, nil
	case !regionID.MatchString(in.region):
		return nil, core.Fail(http.StatusNotFound, "InvalidRegionId.NotFound", "The specified RegionId does not exist.")
	}
	s := c.regions[in.region]
	if s == nil {
		s = emptyRegion(home, in.region)
		if c.regions == nil {
			c.regions = map[string]*State{}
		}
		c.regions[in.region] = s
	}
	// One account, one access control and one balance for all regions.
	s.Account, s.Lag, s.ForgetTokens = home.Account, home.Lag, home.ForgetTokens
	s.ramState.Share(home.ramState)
	return s, nil
}
