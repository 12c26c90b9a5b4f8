"""Second stages: score the candidates of a first stage again, each pair of query and document separately.

``stages.toml`` declares their names and parameters. Scores depend on the texts of the pair and on nothing else, so the
texts are the key of their cache.
"""
