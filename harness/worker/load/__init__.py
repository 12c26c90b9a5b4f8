"""Load on a finished index: cold passes, and clients in closed and open loop, each a process of its own."""
