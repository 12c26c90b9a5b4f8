"""Did it get worse? Two results compared query by query: verdicts, costs, settings, and a dossier.

From the calls of Python and the command line inwards:

- ``run_regress``: the calls; ``regression``: their return values; ``rerun``: the baseline's plan with changes, and the
  command that does the same.
- ``read_snapshot``: one of the two results from a folder of ``compare`` or ``check``, or from a baseline, by dataset.
- ``compare_sides``: options as rules of judging, and two results to one change. ``pairing`` of backends, queries and
  settings; ``common_depth`` of results of different depth; ``verdicts``, ``cost_changes`` and ``dossier`` of each pair;
  ``labels``: judgments that came later.
"""
