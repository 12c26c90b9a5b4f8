"""From what was asked for to trials: expressions, sweeps, stages, options and the plan."""
