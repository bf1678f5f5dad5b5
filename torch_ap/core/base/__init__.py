"""Arguments, messages, arrays, memory and caches."""
