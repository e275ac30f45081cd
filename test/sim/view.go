package sim

// View shows the current state without copying it, while nothing else runs. look must not call the Cloud, nor keep or change the state.
func (c *Cloud) View(look func(*State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.advance(c.now())
	look(c.state)
}
