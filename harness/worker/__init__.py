"""Isolated processes, their jobs and results as files, and vectors and builds that trials share."""
