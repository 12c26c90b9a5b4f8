"""How a plan is carried out: jobs as files, one spawned worker each, encodings shared between backends."""
