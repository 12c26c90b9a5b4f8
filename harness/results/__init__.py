"""Results: the stored schema, its assembly from outcomes, and the result object of Python."""
