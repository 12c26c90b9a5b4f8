"""Second stages: candidates of a first stage scored anew, each pair of query and document by itself.

``stages.toml`` declares their names and parameters. Scores depend on the texts of the pair and on nothing else, so they
are cached by them.
"""
