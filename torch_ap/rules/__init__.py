"""Every rule about arguments, and how a message says which one is broken."""
