package event

// reasons are the sentences by which releases without codes in their records decided.
var reasons = map[string]Reason{
	"Other writes of this kind come first.":                                          AfterOthers,
	"Written; whether it worked shows in the cause alone, which is looked at again.": ByCause,
}

// translate puts the codes into a record of a release that had none, and decided by
// sentences and by the name of a step. Nothing else reads those.
func (r *Record) translate() {
	if r.Reason == "" && r.Phase == Settled && r.Result == Waiting {
		r.Reason = reasons[r.Rule]
	}
	if r.Phase == Settled && r.Result == Failed && r.Finding == "" && r.Next > 0 {
		r.Undoing = true
	}
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Kind == "touch" {
			s.Wakes = true
		}
	}
}
