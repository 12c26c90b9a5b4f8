"""SQLite, through apsw, whose wheel brings a current SQLite with FTS5: full text, and vectors with sqlite-vec."""
