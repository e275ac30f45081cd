package sim

// parameters is what answers say of a listener beyond what all listeners have.
// An HTTP listener says that it redirects nothing: a client that does not read
// this takes it for one to be made again.
func (l *Listener) parameters() reply {
	all := reply{}
	if l.Protocol == "http" {
		all["ListenerForward"] = "off"
	}
	for k, v := range l.Config {
		all[k] = typed(k, v)
	}
	return all
}
