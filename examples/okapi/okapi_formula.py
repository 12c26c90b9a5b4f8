"""BM25 Okapi as the package rank_bm25 computes it: a term of more than half of the documents gets a small IDF."""

import numpy as np

from harness.exact.scoring_functions import Postings


def okapi(postings: Postings, parameters) -> np.ndarray:
    documents = len(postings.lengths)
    idf = np.log(documents - postings.df + 0.5) - np.log(postings.df + 0.5)
    idf = np.where(idf < 0, parameters["epsilon"] * idf.mean(), idf)
    k1, b = parameters["k1"], parameters["b"]
    norm = k1 * (1 - b + b * postings.lengths / postings.lengths.mean())
    tf = postings.tf
    return idf[postings.term] * tf * (k1 + 1) / (tf + norm[postings.document])
