"""What ranks exchange so that none holds the items of all: scores by range, queries, matched detections."""
