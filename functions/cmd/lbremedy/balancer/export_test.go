package balancer

// Label returns the load balancer as shown in the table.
func (b Balancing) Label() string { return b.name() }
