package main

import (
	"io/fs"
	"slices"

	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/infra/gen/folders"
	"github.com/lbremedy/lbremedy/infra/ram"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/ticket"
)

// ramPolicies adds policies of the classes; the notifier (Alibaba Cloud's support); "lbremedy up" with and without classes (its cluster); the doctor.
func ramPolicies(all []*remedy.Remedy, out map[string][]byte) error {
	grants := map[string][]grant.Grant{}
	for _, r := range all {
		grants[r.Class] = r.Grants()
	}
	grants[upClass] = slices.Concat(together(all).Grants(), ticket.SupportGrants, []grant.Grant{grant.DescribeClusterDetail})
	grants[engineClass] = append(slices.Clip(ticket.SupportGrants), grant.DescribeClusterDetail)
	grants[notifierClass] = ticket.SupportGrants
	grants[doctorClass] = checks.Grants()
	files, err := ram.Files(grants)
	for name, text := range files {
		out["infra/ram/generated/"+name] = text
	}
	return err
}

// generatedFolder marks generated files by its name: JSON has no comments and RAM no field for one. Any other file is of a removed class.
const generatedFolder = "infra/ram/generated"

func leftovers(root fs.FS, files map[string][]byte) ([]string, error) {
	return folders.Leftovers(root, generatedFolder, files, func(string, []byte) bool { return true })
}
