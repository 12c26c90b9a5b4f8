"""Reports as one self-contained HTML file: a page model, pictures, and a list of queries to look into."""
