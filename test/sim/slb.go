package sim

import "net/http"

// notAuthorized is how most products refuse what RAM does not allow.
var notAuthorized = failure{
	Status: http.StatusForbidden, Code: "NoPermission",
	Message: "You are not authorized to do this action. You should be authorized by RAM.",
}

func slb() *product       { return &product{name: "slb", version: "2014-05-15"} }
func vpc() *product       { return &product{name: "vpc", version: "2016-04-28"} }
func ecs() *product       { return &product{name: "ecs", version: "2014-05-26"} }
func ram() *product       { return &product{name: "ram", version: "2015-05-01"} }
func sts() *product       { return &product{name: "sts", version: "2015-04-01"} }
func cs() *product        { return &product{name: "cs", version: "2015-12-15"} }
func quotas() *product    { return &product{name: "quotas", version: "2020-05-10"} }
func workorder() *product { return &product{name: "workorder", version: "2021-06-10"} }
func billing() *product   { return &product{name: "bss", version: "2017-12-14"} }
