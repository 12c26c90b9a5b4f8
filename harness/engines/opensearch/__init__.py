"""OpenSearch and Elasticsearch, as servers: BM25 of analysed terms, and indexes with their own analyzers."""
