"""What is used beside the gateway: a simulator of the vendors, a doctor, guides, makers of price tables."""
