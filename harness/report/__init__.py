"""Documents of results, and their rendering."""
