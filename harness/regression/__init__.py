"""Did it get worse? Two results of the same plan, compared query by query: verdicts, costs, settings, and a dossier."""
