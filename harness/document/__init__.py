"""A document: verdicts, sections, tables, figures, notes. Made by verbs and probes, shown by renderers."""
