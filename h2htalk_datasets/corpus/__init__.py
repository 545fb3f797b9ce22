"""The authored corpus: YAML sources, the checks that they must pass, the build to Parquet, and its statistics."""
