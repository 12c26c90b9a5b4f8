"""Outcomes of trials that a later comparison may take: what they are found under, and when they stand."""
