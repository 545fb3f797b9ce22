"""The authored corpus: sources, the gates they must pass, and the build to Parquet."""
