package balancer

type (
	Balancing = balancing
	Weight    = weight
)

// Label returns the load balancer as the table shows it.
func (b balancing) Label() string { return b.name() }

// OfLimit returns the backends as the table shows them.
func (b balancing) OfLimit() string { return b.ofLimit() }
