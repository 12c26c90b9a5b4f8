"""Golden sets: a user's own questions with the document ids they expect, matched, required and checked."""
