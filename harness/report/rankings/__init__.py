"""The queries of a result with the rankings of all backends side by side, for the page and for the terminal."""
