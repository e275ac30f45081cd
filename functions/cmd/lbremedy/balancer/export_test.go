package balancer

// Label returns the load balancer as the table shows it.
func (b Balancing) Label() string { return b.name() }
