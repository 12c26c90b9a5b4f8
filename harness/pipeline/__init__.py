"""Trials of a plan: taken from stored outcomes, measured under load, built again."""
