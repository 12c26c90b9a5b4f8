"""What a trial can be measured for beside its hits: load, cold start, rebuilds."""
