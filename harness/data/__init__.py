"""Documents, queries and judgments as the harness holds them, and the way to them from records and objects."""
