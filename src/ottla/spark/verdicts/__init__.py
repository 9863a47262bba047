"""Steps of the pipeline `verdicts`: commits to spans, rows to evidence, verdicts to rows."""
