package sim

// View shows the state as it is now, without the copy that a Snapshot is. Nothing
// else runs meanwhile: look must not call the Cloud, nor keep or change what it sees.
func (c *Cloud) View(look func(*State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.advance(c.now())
	look(c.state)
}
