"""From a request to trials: expressions, sweeps, stages, options and the plan."""
