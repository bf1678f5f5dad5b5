"""Base of all metric classes: state, merge, synchronization, bytes and exchange among processes."""
