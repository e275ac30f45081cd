package ccm

// Short names of the annotations that set how a CLB is billed, and its size where it is billed by
// spec, with the values of the first. The values are case-sensitive.
const (
	ChargeType = "instance-charge-type"
	ChargeSpec = "spec"
	PayByLCU   = "PayByCLCU"
	PayBySpec  = "PayBySpec"
)

// FirstChargeType is the first release of the controller that reads the charge type.
func FirstChargeType() Version { return Version{Major: 2, Minor: 4} }

// FirstPayByLCU is the first release of the controller that asks for CLBs that are billed by LCU
// when a Service names neither a charge type nor a spec.
func FirstPayByLCU() Version { return v2121 }
