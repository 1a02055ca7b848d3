"""What the benchmark consists of: the machine, Pombo, the others, and the report."""
