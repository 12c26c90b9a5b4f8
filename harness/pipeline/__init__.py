"""Trials of one plan: taken from what is stored, measured under load, built again."""
