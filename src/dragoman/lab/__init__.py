"""Tools beside the gateway: the simulator, the doctor, guides, makers of price tables."""
