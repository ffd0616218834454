"""Retention: closed reviews lose their contents after so many days, and the log stays verifiable."""
