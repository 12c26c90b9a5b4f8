"""Did it get worse? Two results compared query by query: verdicts, costs, settings, and a dossier.

Where a thing lives, from the calls of Python and the command line inwards:

- ``regress``, ``diff``: the calls; ``result``: what they return; ``gate_rules``: how it is judged;
  ``rerun``: the baseline's plan with changes, and the command of it; ``set_option``: changes of ``--set``.
- ``read``: a side from a path. A ``side`` is one of the two results, whatever it was read from: a folder of
  ``compare``, of ``check`` (``check_side``), a ``baseline`` file, or what just ran.
- ``compare_sides``: two sides to one report. What they have in common: ``pairing`` of backends, ``common_queries``,
  ``setting_changes``. What is said of each pair: ``verdicts``, ``costs``, ``dossier``.
- Behind the dossier: ``labels`` (documents to judge, and their grades read back), ``rescoring`` by other judgments,
  and ``supposed`` ones.
- ``schema``: what ``regression.json`` holds; ``stored``: that file on disk.
"""
