"""Cards, parameters and names: what there is, and what each takes."""
