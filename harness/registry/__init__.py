"""Cards, parameters and names: the available backends and datasets, and their parameters."""
