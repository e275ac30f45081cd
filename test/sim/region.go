package sim

import (
	"net/http"
	"regexp"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// endpoint matches the cloud's host names: product and, unless central, region. Any other host is an address for all products.
var endpoint = regexp.MustCompile(`^([a-z]+)(?:-vpc)?(?:[.-]([a-z]{2}-[a-z0-9-]+))?\.aliyuncs\.com(?::\d+)?$`)

var regionID = regexp.MustCompile(`^(ap|cn|eu|me|na|us)-[a-z0-9-]+$`)

// locate sets the request's region: the requested one, or the endpoint's. A product's endpoint accepts only versions of that product.
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
	if product == "business" { // host of the billing product
		product = "bss"
	}
	if product != in.product.Name && in.bad == nil {
		in.bad = core.Fail(http.StatusNotFound, "InvalidVersion", "Specified parameter Version is not valid.")
	}
}

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

// there returns the state of the request's region. Regions other than the World's start empty.
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
	// All regions share the account, its RAM and its balance.
	s.Account, s.Lag, s.ForgetTokens = home.Account, home.Lag, home.ForgetTokens
	s.ramState.Share(home.ramState)
	return s, nil
}
