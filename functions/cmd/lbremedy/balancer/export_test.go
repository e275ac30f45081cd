package balancer

func (b Balancing) Label() string { return b.name() }
