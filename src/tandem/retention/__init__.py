"""Retention: removes contents a number of days after a review or cycle was closed; the log stays verifiable."""
