"""The command line: ``app`` holds the verbs, every other module is one verb or its rendering."""
