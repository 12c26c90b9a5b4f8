"""Drop-in classes for other libraries, whose values come from this package's core."""
