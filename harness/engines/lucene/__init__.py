"""Lucene in a JVM: BM25, learned sparse weights, vectors."""
